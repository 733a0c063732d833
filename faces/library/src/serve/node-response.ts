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
  const known = new Map<string, NodeHeaderValue>();
  for (const [name, value] of headers) {
    const earlier = known.get(name.toLowerCase());
    const all = earlier === undefined ? value : [...valuesOf(earlier), value];
    known.set(name.toLowerCase(), all);
    response.setHeader(name, all);
  }
}

/** Whether the connection is closed. Node says so before it emits `close`. */
export function isClosed({ destroyed, stream }: NodeResponse): boolean {
  return destroyed === true || stream?.destroyed === true;
}
