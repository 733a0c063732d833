/**
 * Scripted server: a real HTTP server on loopback that responds from a script. It keeps the
 * requests that it receives, so that tests can check what went over the wire.
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface ScriptedResponse {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Returns the response to send, or undefined if it writes to `response` itself. */
export type Responder = (
  received: Received,
  index: number,
  response: ServerResponse,
) => ScriptedResponse | undefined;

export interface ScriptedServer {
  readonly origin: string;
  readonly received: readonly Received[];
  /** Number of connections opened since the start, and of those open now. */
  readonly opened: () => number;
  readonly open: () => number;
  /** Resolves when a connection closes, or at once if one has closed before. */
  readonly closed: () => Promise<void>;
  close(): Promise<void>;
}

/** Returns one response per request; the last one repeats. */
export function script(...responses: readonly ScriptedResponse[]): Responder {
  return (_, index) => responses[Math.min(index, responses.length - 1)];
}

export async function scriptedServer(respond: Responder): Promise<ScriptedServer> {
  const received: Received[] = [];
  const sockets = new Set<Socket>();
  let opened = 0;
  let onClosed: () => void = () => undefined;
  const closed = new Promise<void>((resolve) => {
    onClosed = resolve;
  });
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      const entry = { method, url, headers, body: Buffer.concat(chunks) };
      const scripted = respond(entry, received.push(entry) - 1, response);
      if (scripted === undefined) return;
      response.writeHead(scripted.status, scripted.headers).end(scripted.body);
    });
  });
  server.on("connection", (socket) => {
    opened++;
    sockets.add(socket);
    socket.on("close", () => {
      sockets.delete(socket);
      onClosed();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    received,
    opened: () => opened,
    open: () => sockets.size,
    closed: () => closed,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
