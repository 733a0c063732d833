/**
 * Framework servers: the same application on every framework that has an adapter. Each
 * server reads the body in its own way and writes the response in its own way.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { serve } from "@hono/node-server";
import express5 from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import {
  forExpress,
  forFastify,
  forFetch,
  forHono,
  forNode,
  type Interceptor,
} from "redrive/server";

/** What the application answers. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly body: Buffer;
  /** Write the body in two parts, or pipe a stream. Default: at once. */
  readonly how?: "parts" | "stream";
  /** In place of the body: what is piped. */
  readonly stream?: AsyncIterable<Uint8Array>;
}

/** The application: gets the body as text, and the framework's own request. */
export type Application = (body: string, native: unknown) => Promise<Answer>;

export interface RunningServer {
  readonly url: string;
  close(): Promise<void>;
}

type Open = (interceptor: Interceptor<never>, application: Application) => Promise<RunningServer>;

async function listening(server: Server): Promise<RunningServer> {
  if (!server.listening) await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

interface Writable extends NodeJS.WritableStream {
  statusCode: number;
  setHeader(name: string, value: string | readonly string[]): unknown;
}

function write(response: Writable, { status, headers, body, how, stream }: Answer): void {
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  const middle = Math.floor(body.length / 2);
  if (stream !== undefined) Readable.from(stream).pipe(response);
  else if (how === "stream")
    Readable.from([body.subarray(0, middle), body.subarray(middle)]).pipe(response);
  else if (how === "parts") {
    response.write(body.subarray(0, middle));
    response.end(body.subarray(middle));
  } else response.end(body);
}

function toResponse({ status, headers, body, how, stream }: Answer): Response {
  const list = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    for (const one of [value].flat()) list.append(name, one);
  }
  const parts = stream ?? [body.subarray(0, 3), body.subarray(3)];
  const isWhole = how === undefined && stream === undefined;
  const content = isWhole ? new Uint8Array(body) : Readable.toWeb(Readable.from(parts));
  const isEmpty = isWhole && body.length === 0;
  return new Response(isEmpty ? null : (content as BodyInit), { status, headers: list });
}

async function textOf(stream: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** Errors of a handler have no place to go in Node, so that this server answers them. */
const openNode: Open = (interceptor, application) => {
  const handler = forNode(
    interceptor as Interceptor<IncomingMessage>,
    async (request: IncomingMessage, response: ServerResponse) => {
      write(response, await application(await textOf(request), request));
    },
  );
  const server = createServer((request, response) => {
    handler(request, response).catch(() => {
      response.statusCode = 500;
      response.end("failed");
    });
  });
  return listening(server.listen(0, "127.0.0.1"));
};

const openExpress =
  (express: typeof express5, parser: "before" | "after"): Open =>
  (interceptor, application) => {
    const app = express();
    app.disable("etag");
    const json = express.json({ limit: "8mb", strict: false });
    const middleware = forExpress(interceptor as Interceptor);
    app.use("/api", ...(parser === "before" ? [json, middleware] : [middleware, json]));
    app.use("/api", (request, response, next) => {
      application(JSON.stringify(request.body), request).then(
        (answer) => write(response, answer),
        next,
      );
    });
    app.use((_error: unknown, _request: unknown, response: express5.Response, _next: unknown) => {
      response.status(500).send("failed");
    });
    return listening(app.listen(0, "127.0.0.1"));
  };

const openFastify: Open = async (interceptor, application) => {
  const app = Fastify({ bodyLimit: 8_000_000, forceCloseConnections: true });
  app.addHook("preHandler", forFastify(interceptor as Interceptor));
  app.all("/api/*", async (request, reply) => {
    const answer = await application(JSON.stringify(request.body), request);
    const { status, headers, body, how, stream } = answer;
    reply.code(status).headers(headers as Record<string, string>);
    const parts = stream ?? [body.subarray(0, 3), body.subarray(3)];
    const isWhole = how === undefined && stream === undefined;
    return reply.send(isWhole ? body : Readable.from(parts));
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: async () => void (await app.close()) };
};

const openHono: Open = (interceptor, application) => {
  const app = new Hono();
  app.use("/api/*", forHono(interceptor as Interceptor));
  app.all("/api/*", async (context) =>
    toResponse(await application(await context.req.text(), context)),
  );
  return listening(serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }) as Server);
};

const openFetch: Open = (interceptor, application) => {
  const handler = forFetch(interceptor as Interceptor, async (request: Request) =>
    toResponse(await application(await request.text(), request)),
  );
  return listening(
    serve({
      fetch: (request) => handler(request).catch(() => new Response("failed", { status: 500 })),
      port: 0,
      hostname: "127.0.0.1",
    }) as Server,
  );
};

/** Its types are those of Express 5. */
const express4 = createRequire(import.meta.url)("express4") as typeof express5;

export const FRAMEWORKS: readonly (readonly [name: string, open: Open])[] = [
  ["node:http", openNode],
  ["Express 4, after the parser", openExpress(express4, "before")],
  ["Express 5, after the parser", openExpress(express5, "before")],
  ["Express 4, before the parser", openExpress(express4, "after")],
  ["Express 5, before the parser", openExpress(express5, "after")],
  ["Fastify", openFastify],
  ["Hono", openHono],
  ["fetch", openFetch],
];
