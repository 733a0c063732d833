/** Served fetch: a `Request` in the form that interceptors read. */
import type { ServedBody, ServedRequest } from "./interceptor.ts";
import { joined } from "./node-body.ts";

/** `native` is what the framework passes to its handlers. */
export function servedFetch<Native>(native: Native, request: Request): ServedRequest<Native> {
  const { pathname, search } = new URL(request.url);
  return {
    method: request.method,
    target: pathname + search,
    header: (name) => request.headers.get(name) ?? undefined,
    body: (maxBytes) => fetchBody(request, maxBytes),
    onGone: (listener) => request.signal.addEventListener("abort", listener),
    native,
  };
}

async function fetchBody(request: Request, maxBytes: number): Promise<ServedBody> {
  if (request.bodyUsed) return { kind: "gone" };
  if (Number(request.headers.get("content-length")) > maxBytes) return { kind: "too-large" };
  // Reads a copy, so that the handler can still read the body.
  return await readBody(request.clone().body?.getReader(), maxBytes).catch(() => INCOMPLETE);
}

const INCOMPLETE: ServedBody = { kind: "incomplete" };

async function readBody(
  reader: ReadableStreamDefaultReader<Uint8Array> | undefined,
  maxBytes: number,
): Promise<ServedBody> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (let next = await reader?.read(); next?.value !== undefined; next = await reader?.read()) {
    chunks.push(next.value);
    length += next.value.length;
    if (length > maxBytes) return { kind: "too-large" };
  }
  return { kind: "bytes", bytes: joined(chunks, length) };
}
