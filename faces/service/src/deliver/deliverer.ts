/**
 * Deliver: carries out one HTTP attempt, safely. Made of an undici agent that opens sockets through
 * the guarded connector, follows no redirect, inflates nothing and repeats nothing by itself: what
 * is repeated is core's to decide. An attempt's end is a value; only wrong use throws.
 */
import { type AbortSignalLike, assertRange, type Clock } from "@redrive/core";
import { Agent, type Dispatcher } from "undici";
import { memoize } from "../collections/bounded-cache.ts";
import { hopsOf } from "../model/hop.ts";
import type { Headers } from "../model/task.ts";
import { DeadlineTimer } from "../time/deadline-timer.ts";
import { type Resolver, systemResolver } from "./address-guard/resolver.ts";
import { checkTarget, type RefusedTarget, type Target } from "./address-guard/target.ts";
import type { TargetPolicy } from "./address-guard/target-policy.ts";
import { Attempt, type AttemptCall } from "./attempt.ts";
import { type AttemptResult, notStarted } from "./attempt-result.ts";
import { Connector } from "./connector.ts";
import { overridesIn, requestHeaders } from "./request-headers.ts";
import { type SigningKey, signWebhook } from "./signing.ts";
import { createTlsSessions } from "./tls-sessions.ts";
import { cryptoHex, type HexSource, newTraceparent } from "./trace.ts";

export interface DelivererOptions {
  readonly clock: Clock;
  /** Where attempts may go. */
  readonly targets: TargetPolicy;
  /** Default: the system's. */
  readonly resolve?: Resolver;
  /** Chance for trace ids. Default: the machine's own. */
  readonly hex?: HexSource;
  /** Certificates to trust instead of the well-known ones; PEM. */
  readonly ca?: string;
}

/** What to send. */
export interface DeliverRequest {
  readonly taskId: string;
  /** From 1. */
  readonly attemptNumber: number;
  readonly targetUrl: string;
  /** Upper case. */
  readonly method: string;
  /** The task's own. */
  readonly headers: Headers;
  readonly body: Uint8Array | null;
  /** Null: that of its headers, otherwise the task's id. */
  readonly idempotencyKey: string | null;
  /** Default: that of its headers, otherwise the task's id and the number of the attempt. */
  readonly requestId?: string;
  /** Default: that of its headers, otherwise the beginning of a new trace. */
  readonly traceparent?: string;
  /** Signs the request (Standard Webhooks) once with each; none: not at all. */
  readonly signingKeys?: readonly SigningKey[];
  /** Values that must not be stored, should the target send them back, beside its own headers. */
  readonly secrets?: readonly string[];
}

export interface DeliverOptions {
  /** Wall to wall. 1 to 600 000 ms. */
  readonly attemptTimeoutMs: number;
  /** Lookup, connection and TLS, within it. 1 to 60 000 ms. */
  readonly connectTimeoutMs: number;
  /** Ends the attempt on the wire. */
  readonly signal?: AbortSignalLike;
  /** When the attempt is made, for signature and Retry-After; epoch ms. Default: the clock's. */
  readonly now?: number;
}

export interface Deliverer {
  /** Always resolves; throws on wrong use only. Any number may be under way at once. */
  deliver(request: DeliverRequest, options: DeliverOptions): Promise<AttemptResult>;

  /**
   * Lets running attempts end, then closes every connection; resolves when that is done, also if
   * called twice. Later attempts end as aborted.
   */
  close(): Promise<void>;
}

/** Verdicts on target URLs that are kept; the URLs of most tasks are few. */
const MAX_VERDICTS = 1024;

/** How long an idle connection may be kept, should a target ask for more. */
const MAX_IDLE_MS = 30_000;

export function createDeliverer(options: DelivererOptions): Deliverer {
  return new HttpDeliverer(options);
}

class HttpDeliverer implements Deliverer {
  readonly #clock: Clock;
  readonly #hex: HexSource;
  readonly #connector: Connector;
  readonly #deadlines: DeadlineTimer;
  readonly #check: (targetUrl: string) => Target | RefusedTarget;
  readonly #agent: Agent;

  /** Mutable state: set once, by `close`. */
  #closed: Promise<void> | undefined;

  constructor({ clock, targets, resolve = systemResolver(), hex, ca }: DelivererOptions) {
    this.#clock = clock;
    this.#hex = hex ?? cryptoHex();
    this.#deadlines = new DeadlineTimer(clock);
    this.#check = memoize(MAX_VERDICTS, (targetUrl) => checkTarget(targetUrl, targets));
    const sessions = createTlsSessions();
    this.#connector = new Connector({ clock, policy: () => targets, resolve, sessions, ca });
    this.#agent = newAgent(this.#connector);
  }

  deliver(request: DeliverRequest, options: DeliverOptions): Promise<AttemptResult> {
    assertRange("attemptTimeoutMs", options.attemptTimeoutMs, 1, 600_000);
    assertRange("connectTimeoutMs", options.connectTimeoutMs, 1, 60_000);
    if (this.#closed || options.signal?.aborted) return Promise.resolve(ABORTED);
    const target = this.#check(request.targetUrl);
    if (!target.ok) return Promise.resolve(refused(target));
    const now = options.now ?? this.#clock.now();
    const dispatch = dispatchOptions(target, request, this.#headers(request, now));
    return new Promise((settle) => this.#send(dispatch, { request, options, now, settle }));
  }

  close(): Promise<void> {
    this.#closed ??= this.#agent.close();
    return this.#closed;
  }

  #send(dispatch: Dispatcher.DispatchOptions, call: AttemptCall): void {
    const attempt = new Attempt(this.#clock, this.#deadlines, call);
    this.#connector.opener = attempt;
    this.#agent.dispatch(dispatch, attempt);
    this.#connector.opener = undefined;
  }

  #headers(request: DeliverRequest, now: number): string[] {
    const { taskId, attemptNumber, signingKeys, body } = request;
    const hop = hopsOf(request.headers) + 1;
    const given = overridesIn(request.headers);
    const idempotencyKey = request.idempotencyKey ?? given.idempotencyKey ?? null;
    const requestId = request.requestId ?? given.requestId ?? `${taskId}-${attemptNumber}`;
    const traceparent = request.traceparent ?? given.traceparent ?? newTraceparent(this.#hex);
    const own = { taskId, attemptNumber, idempotencyKey, requestId, traceparent, hop };
    if (!signingKeys?.length) return requestHeaders(request.headers, own);
    const signature = signWebhook(signingKeys, { id: taskId, now, body: body ?? NO_BODY });
    return requestHeaders(request.headers, own, { ...signature });
  }
}

const NO_BODY = new Uint8Array(0);
const ABORTED = notStarted({ kind: "aborted" }, null);

function newAgent(connector: Connector): Agent {
  return new Agent({
    connect: connector.connect,
    pipelining: 1,
    allowH2: false,
    maxHeaderSize: 16_384,
    keepAliveMaxTimeout: MAX_IDLE_MS,
    // undici's own timeouts bound a silence, not an attempt: `deadlines.ts` does.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

function dispatchOptions(
  { origin, path }: Target,
  { method, body }: DeliverRequest,
  headers: string[],
): Dispatcher.DispatchOptions {
  return { origin, path, method: method as Dispatcher.HttpMethod, headers, body };
}

function refused({ kind, message }: RefusedTarget): AttemptResult {
  const errorClass = kind === "denied" ? "target-denied" : "invalid-request";
  return notStarted({ kind: "fault" }, { errorClass, errorMessage: message });
}
