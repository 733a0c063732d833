/**
 * Connection limits: Node's HTTP server with limits on connections: how many, how many of one address,
 * how many requests of one connection, and how long a client may leave its response unread.
 */
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import type { Cancel, Clock } from "@redrive/core";
import { kindOf, parseAddress } from "../deliver/address-guard.ts";
import { serviceError } from "../model/errors.ts";
import { DeadlineTimer, type TimerEntry } from "../time/deadline-timer.ts";
import { endSocket } from "./problem.ts";

interface ConnectionLimits {
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  readonly sendTimeoutMs: number;
}

export function createLimitedServer(
  clock: Clock,
  limits: ConnectionLimits,
  options: ServerOptions,
  handle: RequestHandler,
): Server {
  const server = createServer(options, new PipelineLimit(handle).handle);
  server.maxConnections = limits.maxConnections;
  const addresses = new AddressLimit(limits.maxConnectionsPerAddress);
  const readers = new SlowReaders(clock, limits.sendTimeoutMs);
  server.on("connection", (socket: Socket) => {
    readers.watch(socket);
    const leave = addresses.enter(socket.remoteAddress);
    if (leave !== undefined) socket.once("close", leave);
    else refuse(socket, limits.maxConnectionsPerAddress);
  });
  return server;
}

function refuse(socket: Socket, max: number): void {
  const text = `this address has ${max} open connections, which is the limit: reuse them`;
  endSocket(socket, serviceError("TOO_MANY_REQUESTS", text));
}

// Address limit: bounds the open connections of one remote address, so that one machine cannot use
// all connections of the server. Connections from this machine are not limited: a reverse proxy may
// run here. An IPv6 client has a whole /64, so that counts as one address.

/** The bytes of an IPv6 address that name its /64. */
const NETWORK_BYTES = 8;

export class AddressLimit {
  readonly #max: number;
  /** Mutable state: open connections by address; no entry stays without a connection. */
  readonly #counts = new Map<string, number>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a connection and returns a function for its end; undefined if there are too many. */
  enter(address: string | undefined): (() => void) | undefined {
    const key = keyOf(address);
    if (key === undefined) return () => {};
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.#max) return undefined;
    this.#counts.set(key, count + 1);
    return () => this.#leave(key);
  }

  /** The addresses that have a connection. */
  get size(): number {
    return this.#counts.size;
  }

  #leave(key: string): void {
    const count = (this.#counts.get(key) ?? 1) - 1;
    if (count === 0) this.#counts.delete(key);
    else this.#counts.set(key, count);
  }
}

/** Undefined for an address that is not limited. A socket that is closed already has no address. */
function keyOf(address: string | undefined): string | undefined {
  const bytes = parseAddress(address?.replace(/%.*$/u, "") ?? "");
  if (bytes === undefined || kindOf(bytes) === "loopback") return undefined;
  return bytes.slice(0, NETWORK_BYTES).join(".");
}

// Arrival limit: the body of a request must arrive in time. An upload may take long, but it must
// make progress. Node has one limit for all requests of a server, which must allow for the longest
// upload.

export class ArrivalLimit {
  readonly #clock: Clock;
  readonly #timer: DeadlineTimer;
  readonly #limitMs: number;

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock;
    this.#timer = new DeadlineTimer(clock);
    this.#limitMs = limitMs;
  }

  watch(request: IncomingMessage, isUpload: boolean): void {
    if (hasBody(request)) this.#watchBody(request, isUpload);
  }

  /** Watches an entry of the caller until it leaves. If it expires, the caller calls `end`. */
  enter(entry: TimerEntry & { deadlineMs: number }): void {
    entry.deadlineMs = this.#clock.monotonicMs() + this.#limitMs;
    this.#timer.add(entry);
  }

  leave(entry: TimerEntry): void {
    this.#timer.remove(entry);
  }

  /** Responds to a request that did not arrive in time, and closes its connection. */
  end({ socket }: IncomingMessage): void {
    endSocket(socket, serviceError("REQUEST_TIMEOUT", LATE));
  }

  #watchBody(request: IncomingMessage, isUpload: boolean): void {
    const { socket } = request;
    const bytesRead = socket.bytesRead;
    let isOver = false;
    const entry: TimerEntry = {
      deadlineMs: this.#clock.monotonicMs() + this.#limitMs,
      slot: -1,
      expire: () => {
        if (isOver || request.complete) return;
        if (isUpload && socket.bytesRead !== bytesRead) this.#watchBody(request, isUpload);
        else this.end(request);
      },
    };
    this.#timer.add(entry);
    request.once("close", () => {
      isOver = true;
      this.#timer.remove(entry);
    });
  }
}

const LATE = "the request did not arrive in time";

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
}

// Pipeline limit: bounds the requests that a connection sends before it reads the responses. Node
// keeps every unsent response in memory, and parses all requests of up to 64 KiB of input before it
// stops reading. So a few requests of a connection run at once, a few more wait, and a connection
// that sends still more is closed.

export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** Requests of one connection that run at once, besides the one whose response is sent first. */
const MAX_AT_ONCE = 16;

/** Requests of one connection that wait until earlier responses are sent. */
const MAX_WAITING = 100;

/** Waiting requests of all connections. Each costs a few kilobytes. */
const MAX_WAITING_IN_ALL = 4096;

/** A connection with more unsent bytes starts its requests one by one. */
const MAX_UNSENT_BYTES = 64 * 1024;

/** A connection that has pipelined requests. */
interface Pipeline {
  readonly socket: Socket;
  /** Responses that are not sent completely. */
  readonly running: Set<ServerResponse>;
  readonly waiting: ServerResponse[];
}

class PipelineLimit {
  readonly #handle: RequestHandler;
  readonly #pipelines = new WeakMap<Socket, Pipeline>();

  /** Mutable state: the waiting requests of all connections. */
  #waiting = 0;

  constructor(handle: RequestHandler) {
    this.#handle = handle;
  }

  /** A handler for the server's `request` event. */
  readonly handle: RequestHandler = (request, response) => {
    // Node gives the socket to a response at once if no response precedes it.
    if (response.socket !== null) this.#handle(request, response);
    else this.#addPipelined(request.socket, response);
  };

  #addPipelined(socket: Socket, response: ServerResponse): void {
    // Node parses the rest of the input even after the connection is closed.
    if (socket.destroyed) return;
    const pipeline = this.#pipelineOf(socket);
    if (pipeline.waiting.length === 0 && hasRoom(pipeline)) this.#start(pipeline, response);
    else if (pipeline.waiting.length >= MAX_WAITING || this.#waiting >= MAX_WAITING_IN_ALL) {
      socket.destroy();
    } else {
      this.#waiting++;
      pipeline.waiting.push(response);
      socket.pause();
    }
  }

  #pipelineOf(socket: Socket): Pipeline {
    const known = this.#pipelines.get(socket);
    if (known !== undefined) return known;
    const pipeline: Pipeline = { socket, running: new Set(), waiting: [] };
    this.#pipelines.set(socket, pipeline);
    socket.once("close", () => {
      this.#waiting -= pipeline.waiting.length;
      pipeline.waiting.length = 0;
    });
    return pipeline;
  }

  #start(pipeline: Pipeline, response: ServerResponse): void {
    pipeline.running.add(response);
    response.once("close", () => {
      pipeline.running.delete(response);
      this.#startWaiting(pipeline);
    });
    this.#handle(response.req, response);
  }

  #startWaiting(pipeline: Pipeline): void {
    const { socket, waiting } = pipeline;
    if (waiting.length === 0) return;
    while (hasRoom(pipeline)) {
      const next = waiting.shift();
      if (next === undefined) break;
      this.#waiting--;
      this.#start(pipeline, next);
    }
    if (waiting.length === 0) socket.resume();
  }
}

/** One request may always run, so that its end starts the next one. */
function hasRoom({ socket, running }: Pipeline): boolean {
  if (running.size === 0) return true;
  if (running.size >= MAX_AT_ONCE) return false;
  let unsent = socket.writableLength;
  for (const response of running) unsent += response.writableLength;
  return unsent < MAX_UNSENT_BYTES;
}

// Slow readers: closes connections whose client reads nothing while a response is unsent. A client
// that reads slowly is kept, and so is one that waits for its response.

/** Checks per timeout: a connection is closed after the timeout plus at most one check. */
const CHECKS = 4;

interface Reader {
  /** Changes whenever the client has read something. */
  progress: number;
  /** The last check that saw progress, or nothing unsent; monotonic ms. */
  atMs: number;
}

export class SlowReaders {
  readonly #clock: Clock;
  readonly #timeoutMs: number;

  // Mutable state.
  readonly #readers = new Map<Socket, Reader>();
  #cancel: Cancel | undefined;

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  watch(socket: Socket): void {
    this.#readers.set(socket, { progress: 0, atMs: this.#clock.monotonicMs() });
    socket.once("close", () => this.#readers.delete(socket));
    if (this.#cancel === undefined) this.#schedule();
  }

  /** Runs only while there are connections. */
  #schedule(): void {
    const check = () => {
      this.#cancel = undefined;
      this.#check(this.#clock.monotonicMs());
      if (this.#readers.size > 0) this.#schedule();
    };
    this.#cancel = this.#clock.alarm(this.#timeoutMs / CHECKS, check, true);
  }

  #check(nowMs: number): void {
    for (const [socket, reader] of this.#readers) {
      const progress = progressOf(socket);
      if (socket.writableLength === 0 || progress !== reader.progress) {
        reader.progress = progress;
        reader.atMs = nowMs;
      } else if (nowMs - reader.atMs >= this.#timeoutMs) socket.destroy();
    }
  }
}

/**
 * Completed writes, minus what the system has not taken of the current write. Node has no public
 * counter for the second part; without it, one long response would look like no progress.
 */
function progressOf(socket: Socket): number {
  const { _handle: handle } = socket as { readonly _handle?: { readonly writeQueueSize?: number } };
  return socket.bytesWritten - socket.writableLength - (handle?.writeQueueSize ?? 0);
}
