/**
 * Node HTTP: the parts of `node:http` that the adapters use, and the body of a request. The library is compiled
 * without the types of Node, because it also runs elsewhere. Requests and responses of Express, Fastify and
 * HTTP/2 fit too.
 */
import type { ServedBody } from "./interceptor.ts";

export interface NodeRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Whether the whole message has arrived; in HTTP/2, whether it was read as well. */
  readonly complete: boolean;
  /** Of HTTP/2. */
  readonly stream?: { readonly readableEnded: boolean };
  readonly readableLength: number;
  readonly readableDidRead: boolean;
  read(): unknown;
  resume(): unknown;
  unshift(chunk: Uint8Array): void;
  on(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
}

export type NodeHeaderValue = number | string | readonly string[];

export interface NodeResponse {
  statusCode: number;
  statusMessage?: string | undefined;
  readonly headersSent: boolean;
  /** Whether the handler has ended it. */
  readonly writableEnded: boolean;
  /** Whether the connection is closed. Responses of HTTP/2 do not have it. */
  readonly destroyed?: boolean;
  /** Of HTTP/2. */
  readonly stream?: { readonly destroyed: boolean };
  setHeader(name: string, value: NodeHeaderValue): unknown;
  getHeader(name: string): NodeHeaderValue | undefined;
  getHeaderNames(): string[];
  /** The names as they were written. Responses of HTTP/2 do not have it. */
  getRawHeaderNames?(): string[];
  removeHeader(name: string): void;
  writeHead(status: number): unknown;
  write(chunk: Uint8Array): boolean;
  end(body: Uint8Array, callback?: () => void): unknown;
  flushHeaders(): void;
  destroy(error?: unknown): unknown;
  once(event: string, listener: () => void): unknown;
}

// The body of a Node request is read and put back, so that a parser or handler that comes later reads it as if
// nobody had.

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
  if (Number(request.headers["content-length"]) > maxBytes) return await discardRest(request);
  // Reading an empty stream to its end would emit `end`, and nobody else would see it.
  const isEmpty = hasArrived(request) && request.readableLength === 0;
  if (isEmpty) return { kind: "bytes", bytes: new Uint8Array() };
  const body = await readToEnd(request, maxBytes);
  if (body.kind === "too-large") return await discardRest(request);
  // Before the event `end`, a stream takes bytes back, also after its last byte has arrived.
  if (body.kind === "bytes" && body.bytes.length > 0) request.unshift(body.bytes);
  return body;
}

/**
 * Reads what the client still sends, and forgets it. A client may read the response only after it has sent
 * everything. If nobody read the rest, it would wait, and then see a connection that is reset.
 */
async function discardRest(request: NodeRequest): Promise<ServedBody> {
  request.resume();
  if (closesConnection(request.headers["connection"])) {
    await new Promise<void>((resolve) => {
      request.on("end", resolve);
      request.on("close", resolve);
    });
  }
  return { kind: "too-large" };
}

/** Servers close such a connection with the response, without waiting for the rest of the request. */
export function closesConnection(header: unknown): boolean {
  return /\bclose\b/i.test(String(header));
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

export function sameBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}
