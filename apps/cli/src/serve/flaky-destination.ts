/**
 * Flaky destination: something to send tasks to while trying Redrive out. It fails now and then by
 * itself, and can be broken for a while and mended.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, parseDuration, type Random } from "@redrive/core";
import { isPortTaken, MAX_PORT } from "./ports.ts";

export interface FlakyDestination {
  /** Without a slash at its end. */
  readonly url: string;
  /** Safe twice. */
  stop(): Promise<void>;
}

/** While it is well, this share of the requests is answered with 503. */
const FAILURE_RATE = 0.2;

const DEFAULT_BREAK_MS = 30_000;
const MAX_BREAK_MS = 24 * 3_600_000;

/** Listens on that port of loopback, or on any free one if it is taken. */
export async function startFlakyDestination(
  clock: Clock,
  random: Random,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<FlakyDestination> {
  const answer = flakyResponses(clock, random);
  const server = createServer((request, response) => respond(request, response, answer));
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

export interface FlakyResponse {
  readonly status: number;
  readonly body: object;
}

/** What a path is answered with, as a plain value. */
export function flakyResponses(clock: Clock, random: Random): (url: string) => FlakyResponse {
  let brokenUntil = 0;
  let asked = 0;
  const isBroken = () => clock.now() < brokenUntil;
  const breakFor = (text: string | null): FlakyResponse => {
    const ms = text === null ? DEFAULT_BREAK_MS : parseDuration(text);
    if (ms === undefined || ms > MAX_BREAK_MS) {
      return { status: 400, body: { error: 'for must be a span of at most 24h such as "30s"' } };
    }
    brokenUntil = clock.now() + ms;
    return { status: 200, body: { broken: true, forMs: ms } };
  };
  const mend = (): FlakyResponse => {
    brokenUntil = 0;
    return { status: 200, body: { broken: false } };
  };
  return (url) => {
    const { pathname, searchParams } = new URL(url, "http://flaky");
    if (pathname === "/break") return breakFor(searchParams.get("for"));
    if (pathname === "/mend") return mend();
    if (pathname === "/") return { status: 200, body: { broken: isBroken(), asked } };
    asked += 1;
    if (isBroken()) return { status: 503, body: { error: "broken: /mend ends it" } };
    if (random.next() < FAILURE_RATE) return { status: 503, body: { error: "bad luck" } };
    return { status: 200, body: { ok: true } };
  };
}

/** The body is read to its end, so that the connection can be used again. */
function respond(
  request: IncomingMessage,
  response: ServerResponse,
  answer: (url: string) => FlakyResponse,
): void {
  request.resume();
  request.on("end", () => {
    const { status, body } = answer(request.url ?? "/");
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
