/**
 * Direct creates: handles the usual `POST /retry-tasks` without Fastify, whose routing, hooks, streams
 * and promises cost more than the rest of such a request. It sends only the 202 of a new task. Every
 * other request and response is left to the route, which gets what is already known about it. So both
 * ways give the same responses.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Clock, isObject } from "@redrive/core";
import type { FastifyInstance } from "fastify";
import type { Accepted } from "../intake/task-intake.ts";
import { assertKeyTargets } from "../intake/task-intake.ts";
import { assertNoLoop } from "../model/task.ts";
import type { Redrive } from "../redrive.ts";
import type { TimerEntry } from "../time/deadline-timer.ts";
import type { Access, Caller } from "./access.ts";
import type { ArrivalLimit, RequestHandler } from "./connection-limits.ts";
import { readTaskInput, withTrace } from "./create-request.ts";
import { type Backlog, storeTimedOut, type TimeLimit } from "./http-context.ts";
import { parseTaskJson } from "./json-body.ts";

interface DirectParts {
  readonly clock: Clock;
  readonly redrive: Pick<Redrive, "enqueueKnown">;
  readonly access: Access;
  readonly backlog: Backlog;
  readonly limit: TimeLimit;
  readonly arrival: ArrivalLimit;
  /** A longer body is left to the route. */
  readonly maxBytes: number;
}

const PATH = "/retry-tasks";
const SCOPE = "tasks:create";

export class DirectCreates {
  readonly #parts: DirectParts;
  readonly #route: RequestHandler;

  /** True: the route handles every request. */
  isOff = false;

  /** `route`: handles the requests that are not usual. */
  constructor(parts: DirectParts, route: RequestHandler) {
    this.#parts = parts;
    this.#route = route;
  }

  readonly handle: RequestHandler = (request, response) => {
    const length = this.isOff ? 0 : usualLength(request);
    if (length === 0 || length > this.#parts.maxBytes) this.#route(request, response);
    else this.#start(request, response, length);
  };

  #start(request: IncomingMessage, response: ServerResponse, length: number): void {
    try {
      const caller = this.#parts.access.check(request, response, SCOPE);
      new DirectCreate(this.#parts, this.#route, request, response, caller, length).receive();
    } catch (error) {
      setHandedOver(request, { caller: undefined, body: undefined, accepted: undefined, error });
      this.#route(request, response);
    }
  }
}

/** The length of the body of a usual create request; 0 for any other request. */
function usualLength({ method, url, headers, httpVersion }: IncomingMessage): number {
  if (method !== "POST" || url !== PATH || httpVersion !== "1.1") return 0;
  if (!isJson(headers["content-type"]) || headers["transfer-encoding"] !== undefined) return 0;
  // A caller that prefers to wait gets its response from the route.
  if (headers["prefer"] !== undefined || headers.expect !== undefined) return 0;
  const length = Number(headers["content-length"]);
  return Number.isSafeInteger(length) ? length : 0;
}

function isJson(type: string | undefined): boolean {
  return type === "application/json" || type === "application/json; charset=utf-8";
}

const CREATE = Symbol("direct create");

type WithCreate = IncomingMessage & { [CREATE]?: DirectCreate };

/** One request, from its head to its response. */
class DirectCreate implements TimerEntry {
  readonly #parts: DirectParts;
  readonly #route: RequestHandler;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #caller: Caller;
  readonly #length: number;

  // Mutable state.
  deadlineMs = 0;
  slot = -1;
  #isArriving = true;
  #isOver = false;
  #chunks: Buffer[] | undefined;
  #body: Buffer | undefined;
  #received = 0;

  constructor(
    parts: DirectParts,
    route: RequestHandler,
    request: IncomingMessage,
    response: ServerResponse,
    caller: Caller,
    length: number,
  ) {
    this.#parts = parts;
    this.#route = route;
    this.#request = request;
    this.#response = response;
    this.#caller = caller;
    this.#length = length;
  }

  /** The body must arrive in time, and then the store must respond in time. */
  receive(): void {
    (this.#request as WithCreate)[CREATE] = this;
    this.#parts.arrival.enter(this);
    this.#request.on("data", onData);
    this.#request.on("close", onClose);
  }

  add(chunk: Buffer): void {
    this.#received += chunk.length;
    if (this.#chunks !== undefined) this.#chunks.push(chunk);
    else if (this.#body === undefined) this.#body = chunk;
    else this.#chunks = [this.#body, chunk];
    if (this.#received < this.#length || !this.#isArriving) return;
    this.#isArriving = false;
    this.#parts.arrival.leave(this);
    const body = this.#chunks === undefined ? this.#body : Buffer.concat(this.#chunks);
    this.#body = body ?? chunk;
    this.#enqueue(this.#body);
  }

  /** The connection was closed, or the request is complete. */
  close(): void {
    if (this.#isArriving) this.#parts.arrival.leave(this);
  }

  expire(): void {
    if (this.#isArriving) this.#parts.arrival.end(this.#request);
    else this.#handOver(undefined, storeTimedOut());
  }

  /** If the request is wrong, or is not usual, the route finds out again, and responds. */
  #enqueue(body: Buffer): void {
    const { limit, redrive } = this.#parts;
    try {
      const input = this.#read(body);
      limit.enter(this);
      const { tenantId } = this.#caller;
      const hops = assertNoLoop(this.#request.headers);
      if (redrive.enqueueKnown(input, tenantId, hops, this.#accept, this.#fail)) return;
    } catch {
      // Below.
    }
    limit.leave(this);
    this.#handOver(undefined, undefined);
  }

  #read(body: Buffer) {
    const { headers } = this.#request;
    const { tenantId, limits } = this.#caller;
    this.#parts.backlog.check(tenantId, limits.maxWaiting);
    const given = readTaskInput(parseTaskJson(body), headers["idempotency-key"]);
    const input = withTrace(given, headers["traceparent"]);
    if (isObject(input)) assertKeyTargets(limits.targets, [input.targetUrl, input.callbackUrl]);
    return input;
  }

  readonly #accept = (accepted: Accepted): void => this.#end(accepted, undefined);

  readonly #fail = (error: unknown): void => this.#end(undefined, error);

  /** The engine calls it for each task of a commit, so it does not throw. */
  #end(accepted: Accepted | undefined, error: unknown): void {
    if (this.#isOver) return;
    this.#parts.limit.leave(this);
    try {
      if (accepted === undefined || accepted.replayed) this.#handOver(accepted, error);
      else this.#respond(accepted.taskId);
    } catch {
      this.#response.destroy();
    }
  }

  #handOver(accepted: Accepted | undefined, error: unknown): void {
    this.#isOver = true;
    setHandedOver(this.#request, { caller: this.#caller, body: this.#body, accepted, error });
    this.#route(this.#request, this.#response);
  }

  /** The same headers and body as those of the route. An id needs no escapes. */
  #respond(taskId: string): void {
    this.#isOver = true;
    const text = `{"taskId":"${taskId}","status":"PENDING"}`;
    this.#response.writeHead(202, [
      "x-content-type-options",
      "nosniff",
      "location",
      `${PATH}/${taskId}`,
      "content-type",
      "application/json; charset=utf-8",
      "content-length",
      String(text.length),
    ]);
    this.#response.end(text);
  }
}

// Shared by all requests: a closure per request would cost more than the call.

function onData(this: IncomingMessage, chunk: Buffer): void {
  (this as WithCreate)[CREATE]?.add(chunk);
}

function onClose(this: IncomingMessage): void {
  (this as WithCreate)[CREATE]?.close();
}

// Handed over: what is already known about a request that the direct path leaves to its route. The
// route does not check the caller again, and gets the body that has already been read.

interface HandedOver {
  /** Undefined: the request was refused with `error`. */
  readonly caller: Caller | undefined;
  /** Undefined: the body has not been read. */
  readonly body: Buffer | undefined;
  /** The task that was stored. Undefined: nothing was stored, as far as is known. */
  readonly accepted: Accepted | undefined;
  /** Why the request failed; undefined: the route finds out. */
  readonly error: unknown;
}

const KNOWN = Symbol("handed over");

type WithKnown = IncomingMessage & { [KNOWN]?: HandedOver };

function setHandedOver(request: IncomingMessage, known: HandedOver): void {
  (request as WithKnown)[KNOWN] = known;
}

/** Undefined: the route handles the request from its beginning. */
export function handedOver(request: IncomingMessage): HandedOver | undefined {
  return (request as WithKnown)[KNOWN];
}

// Turn off for hooks: ends the direct path of an app to which the host program adds a hook of
// requests, because that hook must see every request.

/** Hooks of the server itself. They run when a route is added or the server closes, not per request. */
const SERVER_HOOKS: ReadonlySet<string> = new Set([
  "onRoute",
  "onRegister",
  "onReady",
  "onListen",
  "preClose",
  "onClose",
]);

/** Plugins of this server add server hooks later, when it gets ready. A closing server refuses in its routes. */
export function turnOffForHooks(app: FastifyInstance, direct: readonly DirectCreates[]): void {
  const turnOff = () => {
    for (const creates of direct) creates.isOff = true;
  };
  app.addHook("preClose", async () => turnOff());
  const { addHook } = app;
  app.addHook = function (this: FastifyInstance, ...hook: Parameters<typeof addHook>) {
    if (!SERVER_HOOKS.has(hook[0])) turnOff();
    return addHook.apply(this, hook);
  } as typeof addHook;
}
