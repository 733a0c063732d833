/**
 * Scripted server: a real HTTP server on the loopback that answers by a script and keeps what it
 * was sent, so that tests can say what really went over the wire.
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

/** Answers a request by a value, or takes the response into its own hands. */
export type Responder = (
  received: Received,
  index: number,
  response: ServerResponse,
) => ScriptedResponse | undefined;

export interface ScriptedServer {
  readonly origin: string;
  readonly received: readonly Received[];
  /** Connections that were opened since the start, and those that are open now. */
  readonly opened: () => number;
  readonly open: () => number;
  /** Resolves once a connection has closed, also one that closed earlier. */
  readonly closed: () => Promise<void>;
  close(): Promise<void>;
}

/** Answers by the list, one a request; the last is repeated. */
export function script(...answers: readonly ScriptedResponse[]): Responder {
  return (_, index) => answers[Math.min(index, answers.length - 1)];
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
      const one = { method, url, headers, body: Buffer.concat(chunks) };
      const answer = respond(one, received.push(one) - 1, response);
      if (answer === undefined) return;
      response.writeHead(answer.status, answer.headers).end(answer.body);
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
