/** Node response: reads and writes the headers of a Node response, and sends a complete one. */
import type { PlainResponse } from "./interceptor.ts";
import type { NodeHeaderValue, NodeResponse } from "./node-types.ts";

export type HeaderList = PlainResponse["headers"];

/** The headers that are set now, with the names as they were written. */
export function headersOf(response: NodeResponse): HeaderList {
  const names = response.getRawHeaderNames?.() ?? response.getHeaderNames();
  return names.flatMap((name) =>
    valuesOf(response.getHeader(name)).map((value) => [name, value] as const),
  );
}

export function valuesOf(value: NodeHeaderValue | undefined): readonly string[] {
  if (value === undefined) return [];
  return typeof value === "object" ? value.map(String) : [String(value)];
}

/** Sends a complete response. Headers that are set already stay, unless the response has them. */
export function sendOnNode(
  response: NodeResponse,
  { status, headers, body }: PlainResponse,
  callback?: () => void,
): void {
  response.statusCode = status;
  setHeaders(response, headers);
  if (callback === undefined) response.end(body);
  else response.end(body, callback);
}

export function setHeaders(response: NodeResponse, headers: HeaderList): void {
  const values = new Map<string, { readonly name: string; readonly values: string[] }>();
  for (const [name, value] of headers) {
    const known = values.get(name.toLowerCase());
    if (known === undefined) values.set(name.toLowerCase(), { name, values: [value] });
    else known.values.push(value);
  }
  for (const { name, values: all } of values.values()) {
    response.setHeader(name, all.length === 1 ? (all[0] ?? "") : all);
  }
}
