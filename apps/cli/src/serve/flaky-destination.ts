/**
 * Flaky destination: an HTTP server that fails one request in five, for trying out retries. It can
 * be broken for a while. After that, or once it is repaired, it works until it is broken again.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, parseDuration, type Random } from "@redrive/core";
import { isPortTaken, MAX_PORT } from "./ports.ts";

export interface FlakyDestination {
  /** Without a trailing slash. */
  readonly url: string;
  /** Safe to call twice. */
  stop(): Promise<void>;
}

/** Until it is broken for the first time, it responds with 503 to this share of requests. */
const FAILURE_RATE = 0.2;

const DEFAULT_BREAK_MS = 30_000;
const MAX_BREAK_MS = 24 * 3_600_000;

/** Listens on the port, or on any free port if it is taken. */
export async function startFlakyDestination(
  clock: Clock,
  random: Random,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<FlakyDestination> {
  const respond = flakyResponses(clock, random);
  const server = createServer((request, response) => handleRequest(request, response, respond));
  await listenOnPortOrAny(server, host, port);
  const opened = (server.address() as AddressInfo).port;
  return { url: `http://${host}:${opened}`, stop: () => close(server) };
}

async function listenOnPortOrAny(server: Server, host: string, port: number): Promise<void> {
  try {
    await once(server.listen(port > MAX_PORT ? 0 : port, host), "listening");
  } catch (error) {
    if (!isPortTaken(error)) throw error;
    await once(server.listen(0, host), "listening");
  }
}

interface FlakyResponse {
  readonly status: number;
  readonly body: object;
}

/** Returns a function that maps a URL to its response. */
export function flakyResponses(clock: Clock, random: Random): (url: string) => FlakyResponse {
  let brokenUntil = 0;
  let isFlaky = true;
  let requests = 0;
  const isBroken = () => clock.now() < brokenUntil;
  const breakFor = (text: string | null): FlakyResponse => {
    const ms = text === null ? DEFAULT_BREAK_MS : parseDuration(text);
    if (ms === undefined || ms > MAX_BREAK_MS) {
      return {
        status: 400,
        body: { error: 'for must be a duration of at most 24h such as "30s"' },
      };
    }
    brokenUntil = clock.now() + ms;
    isFlaky = false;
    return { status: 200, body: { broken: true, forMs: ms } };
  };
  const repair = (): FlakyResponse => {
    brokenUntil = 0;
    isFlaky = false;
    return { status: 200, body: { broken: false } };
  };
  return (url) => {
    const { pathname, searchParams } = new URL(url, "http://flaky");
    if (pathname === "/break") return breakFor(searchParams.get("for"));
    if (pathname === "/repair") return repair();
    if (pathname === "/") return { status: 200, body: { broken: isBroken(), asked: requests } };
    requests += 1;
    if (isBroken()) return { status: 503, body: { error: "broken: GET /repair fixes it" } };
    if (isFlaky && random.next() < FAILURE_RATE)
      return { status: 503, body: { error: "random failure" } };
    return { status: 200, body: { ok: true } };
  };
}

/** Reads the request body to its end, so that the connection can be reused. */
function handleRequest(
  request: IncomingMessage,
  response: ServerResponse,
  respond: (url: string) => FlakyResponse,
): void {
  request.resume();
  request.on("end", () => {
    const { status, body } = respond(request.url ?? "/");
    response.writeHead(status, { "content-type": "application/json" });
    response.end(`${JSON.stringify(body)}\n`);
  });
}

async function close(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server.close(), "close");
  server.closeAllConnections();
  await closed;
}
