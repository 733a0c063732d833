/**
 * Node body: reads the body of a Node request and puts it back, so that a parser or handler that comes
 * later reads it as if nobody had.
 */
import type { ServedBody } from "./interceptor.ts";
import type { NodeRequest } from "./node-types.ts";

/** What parsers of Express and Fastify leave on the request. */
interface ParsedRequest {
  readonly body?: unknown;
  /** Set by many programs in the `verify` option of a parser: the bytes before they were parsed. */
  readonly rawBody?: unknown;
}

export function nodeBody(request: NodeRequest, maxBytes: number): ServedBody | Promise<ServedBody> {
  const { body, rawBody } = request as NodeRequest & ParsedRequest;
  if (rawBody instanceof Uint8Array) return { kind: "bytes", bytes: rawBody };
  // A parser that does not know the content type may set `body` and leave the stream alone.
  if (!request.readableDidRead) return readAndRestore(request, maxBytes);
  if (body instanceof Uint8Array) return { kind: "bytes", bytes: body };
  return body === undefined ? { kind: "gone" } : { kind: "parsed", value: body };
}

async function readAndRestore(request: NodeRequest, maxBytes: number): Promise<ServedBody> {
  // In the turn in which the head arrives, Node's parser has not looked at the rest of the packet.
  await null;
  if (Number(request.headers["content-length"]) > maxBytes) return { kind: "too-large" };
  // Reading an empty stream to its end would emit `end`, and nobody else would see it.
  const isEmpty = hasArrived(request) && request.readableLength === 0;
  if (isEmpty) return { kind: "bytes", bytes: new Uint8Array() };
  const body = await readToEnd(request, maxBytes);
  // Before the event `end`, a stream takes bytes back, also after its last byte has arrived.
  if (body.kind === "bytes" && body.bytes.length > 0) request.unshift(body.bytes);
  return body;
}

function hasArrived({ complete, stream }: NodeRequest): boolean {
  return complete || stream?.readableEnded === true;
}

/** Small bodies have arrived: they are read at once. */
function readToEnd(request: NodeRequest, maxBytes: number): ServedBody | Promise<ServedBody> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  function readArrived(): ServedBody | undefined {
    while (request.readableLength > 0 && length <= maxBytes) {
      const chunk = request.read() as Uint8Array;
      chunks.push(chunk);
      length += chunk.length;
    }
    if (length > maxBytes) return { kind: "too-large" };
    if (!hasArrived(request)) return undefined;
    return {
      kind: "bytes",
      bytes: chunks.length === 1 ? (chunks[0] as Uint8Array) : joined(chunks, length),
    };
  }
  const arrived = hasArrived(request) ? readArrived() : undefined;
  if (arrived !== undefined) return arrived;
  return new Promise((resolve) => {
    function onReadable(): void {
      const body = readArrived();
      if (body !== undefined) finish(body);
    }
    function onClose(): void {
      finish({ kind: "incomplete" });
    }
    function finish(body: ServedBody): void {
      request.removeListener("readable", onReadable);
      request.removeListener("close", onClose);
      resolve(body);
    }
    request.on("readable", onReadable);
    request.on("close", onClose);
  });
}

export function joined(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const all = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}
