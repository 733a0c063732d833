/**
 * Test server: a service with its HTTP server on a real port, a target that records requests, and
 * callers that send valid HTTP (`call`) or arbitrary bytes (`rawCall`).
 */
import { once } from "node:events";
import { Agent, createServer, type IncomingHttpHeaders, request } from "node:http";
import { type AddressInfo, connect } from "node:net";
import type { Clock } from "@redrive/core";
import { createRedrive, type Redrive, type RedriveOptions } from "@redrive/service";
import { type AppOptions, createApp, listenApp } from "@redrive/service/http";

export interface TestResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The text as JSON; null if it is not JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly json: any;
}

export interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  /** Sent unchanged, or as JSON if it is an object. */
  readonly body?: string | Buffer | object;
}

export interface Received {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly atMs: number;
}

export interface Target {
  readonly url: string;
  readonly origin: string;
  readonly received: Received[];
  /** The statuses of the next responses; 200 when it is empty. */
  statuses: number[];
  /** Holds all responses until the returned function is called. */
  hold(): () => void;
  close(): Promise<void>;
}

/** Sends requests to one port. */
export interface Caller {
  readonly port: number;
  call(sent: Sent): Promise<TestResponse>;
  /** Sends bytes on a separate socket; resolves when the other side closes or has responded. */
  rawCall(bytes: string | Buffer, options?: { readonly until?: "close" }): Promise<TestResponse>;
  close(): void;
}

export interface TestServer extends Omit<Caller, "close"> {
  readonly url: string;
  readonly redrive: Redrive;
  readonly target: Target;
  close(): Promise<void>;
}

export interface TestServerOptions extends Omit<AppOptions, "clock">, Partial<RedriveOptions> {
  /** The clock by which the server limits its callers; the service itself uses the real one. */
  readonly serverClock?: Clock;
}

export async function openTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const target = await openTarget();
  const redrive = await createRedrive({ store: "memory:", ...serviceOptions(options) });
  const { serverClock: clock, ...rest } = options;
  const app = createApp(redrive, { ...rest, ...(clock && { clock }) });
  const url = await listenApp(app, { port: 0 });
  const caller = callerOn((app.server.address() as AddressInfo).port);
  return {
    ...caller,
    url,
    redrive,
    target,
    async close() {
      caller.close();
      await app.close();
      await redrive.stop(0);
      await target.close();
    },
  };
}

/** `createRedrive` refuses the options of the HTTP server. */
function serviceOptions(options: TestServerOptions): Partial<RedriveOptions> {
  const names = [
    "store",
    "own",
    "allowTargets",
    "encryptionKey",
    "alerts",
    "clock",
    "onFatal",
    "blobs",
    "maxBodyBytes",
  ] as const;
  const given = names.filter((name) => options[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, options[name]]));
}

export function callerOn(port: number): Caller {
  const agent = new Agent({ keepAlive: true, maxSockets: 128 });
  return {
    port,
    call: (sent) => send(port, agent, sent),
    rawCall: (bytes, { until } = {}) => sendRaw(port, bytes, until === "close"),
    close: () => agent.destroy(),
  };
}

function send(
  port: number,
  agent: Agent,
  { method = "POST", path = "/retry-tasks", headers = {}, body }: Sent,
) {
  const isRaw = typeof body === "string" || Buffer.isBuffer(body);
  const bytes = isRaw ? body : JSON.stringify(body);
  const type = body === undefined ? {} : { "content-type": "application/json" };
  return new Promise<TestResponse>((resolve, reject) => {
    const sending = request({
      port,
      host: "127.0.0.1",
      agent,
      method,
      path,
      headers: { ...type, ...headers },
    });
    sending.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          json: parsed(text),
        });
      });
      response.on("error", reject);
    });
    sending.on("error", reject);
    sending.end(bytes);
  });
}

function sendRaw(port: number, bytes: string | Buffer, untilClose: boolean): Promise<TestResponse> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes));
    let text = "";
    const finish = () => {
      socket.destroy();
      resolve(answerIn(text));
    };
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      if (!untilClose && isComplete(text)) finish();
    });
    socket.on("close", finish);
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNRESET" || error.code === "EPIPE") finish();
      else reject(error);
    });
  });
}

function isComplete(text: string): boolean {
  const [head = "", body] = text.split("\r\n\r\n");
  const length = /content-length: (\d+)/i.exec(head)?.[1];
  return body !== undefined && length !== undefined && body.length >= Number(length);
}

function answerIn(text: string): TestResponse {
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const [first = "", ...lines] = head.split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => [line.split(":", 1)[0]?.toLowerCase(), line.replace(/^[^:]*: ?/, "")]),
  );
  const body = rest.join("\r\n\r\n");
  return { status: Number(first.split(" ")[1] ?? 0), headers, text: body, json: parsed(body) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Records requests, and responds with the given statuses. */
export async function openTarget(): Promise<Target> {
  const received: Received[] = [];
  let held: Promise<void> | undefined;
  const server = createServer((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", async () => {
      const { url = "", headers } = incoming;
      received.push({ url, headers, body: Buffer.concat(chunks), atMs: performance.now() });
      const status = target.statuses.shift() ?? 200;
      await held;
      response.writeHead(status).end("answered");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const target: Target = {
    url: `${origin}/hook`,
    origin,
    received,
    statuses: [],
    hold() {
      let release = () => {};
      held = new Promise((resolve) => {
        release = resolve;
      });
      return () => {
        held = undefined;
        release();
      };
    },
    async close() {
      server.closeAllConnections();
      server.close();
    },
  };
  return target;
}

/** Resolves once `count` tasks have ended, counted from the call. */
export function endings(redrive: Redrive, count: number): Promise<void> {
  return new Promise((resolve) => {
    let left = count;
    const stop = redrive.onEvent(({ type }) => {
      if (!/^task\.(succeeded|exhausted|cancelled)$/.test(type) || --left > 0) return;
      stop();
      resolve();
    });
  });
}
