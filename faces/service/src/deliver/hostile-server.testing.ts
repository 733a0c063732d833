/**
 * A server for tests that sends exactly the given bytes on a real socket. It answers requests to
 * `/honest` like a normal server, so that a test can show that the next request is unharmed.
 */
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";

/** What to do with a request, or with a new connection. Text is sent as latin1. */
export type Behavior = string | Buffer | ((socket: Socket, request: ReceivedRequest) => void);

export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  /** As received. */
  readonly head: string;
  readonly body: Buffer;
}

export interface HostileServer {
  readonly port: number;
  /** All requests so far, including those to `/honest`. */
  readonly requests: readonly ReceivedRequest[];
  readonly sockets: readonly Socket[];
  url(path?: string, host?: string): string;
  close(): Promise<void>;
}

export interface HostileOptions {
  readonly tls?: TlsOptions;
  /** What to do with a connection before it sends anything. */
  readonly greet?: (socket: Socket) => void;
  /** Respond when the head is complete, without waiting for the body. */
  readonly hasty?: boolean;
  /** The address to listen on. Default: 127.0.0.1. */
  readonly address?: string;
}

const HONEST = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nx-request-id: honest-1\r\n\r\nhonest";

export async function hostileServer(
  behavior: Behavior,
  options: HostileOptions = {},
): Promise<HostileServer> {
  const requests: ReceivedRequest[] = [];
  const sockets: Socket[] = [];
  const onSocket = (socket: Socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    options.greet?.(socket);
    readRequests(socket, options.hasty ?? false, (request) => {
      requests.push(request);
      act(socket, request.path === "/honest" ? HONEST : behavior, request);
    });
  };
  const server = options.tls ? createTlsServer(options.tls, onSocket) : createServer(onSocket);
  server.on("tlsClientError", () => {});
  const { address = "127.0.0.1", tls } = options;
  server.listen(0, address);
  await once(server, "listening");
  return describeServer(server, requests, sockets, tls ? "https" : "http", address);
}

function describeServer(
  server: Server,
  requests: ReceivedRequest[],
  sockets: Socket[],
  scheme: string,
  ownHost: string,
): HostileServer {
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  return {
    port,
    requests,
    sockets,
    url: (path = "/", host = ownHost) => `${scheme}://${host}:${port}${path}`,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

function act(socket: Socket, behavior: Behavior, request: ReceivedRequest): void {
  if (typeof behavior === "function") behavior(socket, request);
  else if (typeof behavior === "string") socket.write(behavior, "latin1");
  else socket.write(behavior);
}

function readRequests(
  socket: Socket,
  hasty: boolean,
  onRequest: (request: ReceivedRequest) => void,
): void {
  let pending = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk]);
    for (let end = pending.indexOf("\r\n\r\n"); end >= 0; end = pending.indexOf("\r\n\r\n")) {
      const head = pending.toString("latin1", 0, end);
      const length = hasty ? 0 : Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
      if (pending.length < end + 4 + length) return;
      const [method = "", path = ""] = head.split(" ");
      const body = pending.subarray(end + 4, end + 4 + length);
      pending = hasty ? Buffer.alloc(0) : pending.subarray(end + 4 + length);
      onRequest({ method, path, head, body });
    }
  });
}

/** Sends a chunk every few ms until the other side closes. */
export function drip(socket: Socket, pieces: Iterable<string>, everyMs: number): void {
  const iterator = pieces[Symbol.iterator]();
  const timer = setInterval(() => {
    const { value, done } = iterator.next();
    if (done || socket.destroyed || !socket.writable) clearInterval(timer);
    else socket.write(value, "latin1");
  }, everyMs);
  socket.on("close", () => clearInterval(timer));
}

/** The same text forever. */
export function* endless(text: string): Generator<string> {
  for (;;) yield text;
}

/** Writes as fast as the other side reads, until it closes. */
export function flood(socket: Socket, chunk: Buffer | string): void {
  const pump = () => {
    while (!socket.destroyed && socket.write(chunk));
  };
  socket.on("drain", pump);
  pump();
}
