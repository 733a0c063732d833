/**
 * Deliverer: makes one attempt safely. For HTTP it uses an undici agent that opens sockets through the
 * guarded connector, follows no redirects, decompresses nothing and retries nothing; core decides
 * about retries. gRPC calls and messages to brokers use the same connector. The end of an attempt is a
 * value; only incorrect use throws.
 */
import { type AbortSignalLike, assertRange, type Clock } from "@redrive/core";
import { Agent, type Dispatcher } from "undici";
import { memoize } from "../collections/bounded-cache.ts";
import type { Headers } from "../model/task.ts";
import { hopsOf } from "../model/task-headers.ts";
import { DeadlineTimer } from "../time/deadline-timer.ts";
import type { TargetPolicy } from "./address-guard.ts";
import { Attempt, type AttemptCall, type BodyStream, type SessionAttemptCall } from "./attempt.ts";
import { type AttemptResult, notStarted } from "./attempt-result.ts";
import { Connector, createTlsSessions } from "./connector.ts";
import { createResolver, type Resolver, type ResolverKind } from "./lookup.ts";
import {
  attemptTraceparent,
  cryptoHex,
  type HexSource,
  overridesIn,
  requestHeaders,
} from "./request-headers.ts";
import type { WebhookHeaders } from "./signing.ts";
import { checkTarget, type RefusedTarget, type Target } from "./target.ts";

export interface DelivererOptions {
  readonly clock: Clock;
  /** Where attempts may go. */
  readonly targets: TargetPolicy;
  /** How names are looked up. Default: `dns`. */
  readonly resolver?: ResolverKind;
  /** Replaces the resolver. */
  readonly resolve?: Resolver;
  /** Random hex for trace ids. Default: the system's random source. */
  readonly hex?: HexSource;
  /** Certificates to trust instead of the well-known ones; PEM. */
  readonly ca?: string;
  /** Sends the attempts of gRPC targets. */
  readonly createGrpcSender: CreateSender;
  /** Sends the attempts of targets that are brokers. */
  readonly createBrokerSender: CreateSender;
}

/** What attempts over shared connections have in common with HTTP requests. */
export interface SenderParts {
  readonly clock: Clock;
  readonly deadlines: DeadlineTimer;
  readonly connector: Connector;
}

type CreateSender = (parts: SenderParts) => Sender;

export interface Sender {
  send(call: SessionAttemptCall): void;
  /** Lets running calls end, then closes every connection. */
  close(): Promise<void>;
}

/** What to send. */
export interface DeliverRequest {
  /** Whose limit of lookups applies. Default: that of requests without a tenant. */
  readonly tenantId?: string;
  readonly taskId: string;
  /** From 1. */
  readonly attemptNumber: number;
  readonly targetUrl: string;
  /** Upper case. */
  readonly method: string;
  /** The task's headers. */
  readonly headers: Headers;
  readonly body: Uint8Array | null;
  /** The body instead, if it is long. It is sent with its length, and destroyed at the end. */
  readonly stream?: BodyStream;
  /** Null: the key in its headers, otherwise the task's id. */
  readonly idempotencyKey: string | null;
  /** The same on every attempt. Default: the id in its headers, otherwise the task's id. */
  readonly requestId?: string;
  /** The signature (Standard Webhooks) of the body. */
  readonly signature?: WebhookHeaders | undefined;
  /** Values besides the task's headers that must not be stored if the target sends them back. */
  readonly secrets?: readonly string[];
}

export interface DeliverOptions {
  /** For the whole attempt. 1 to 600 000 ms. */
  readonly attemptTimeoutMs: number;
  /** For lookup, connection and TLS. 1 to 60 000 ms. */
  readonly connectTimeoutMs: number;
  /** Aborts the attempt. */
  readonly signal?: AbortSignalLike;
  /** Asked immediately before the first byte. False: nothing is sent, and the attempt is aborted. */
  readonly mayStart?: () => boolean;
  /** The trace context to send. Default: a new span in the trace of the task. */
  readonly traceparent?: string | undefined;
  /** The time of the attempt, for Retry-After; epoch ms. Default: the clock's. */
  readonly now?: number;
}

export interface Deliverer {
  /** Always resolves; throws on incorrect use only. Attempts may run concurrently. */
  deliver(request: DeliverRequest, options: DeliverOptions): Promise<AttemptResult>;

  /**
   * Lets running attempts end, then closes every connection. Resolves when that is done; safe to
   * call twice. Later attempts end as aborted.
   */
  close(): Promise<void>;
}

/** Cached checks of target URLs; most tasks share a few URLs. */
const MAX_VERDICTS = 1024;

/** Maximum time that an idle connection is kept, even if a target asks for more. */
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
  readonly #grpc: Sender;
  readonly #broker: Sender;

  /** Mutable state: set once, by `close`. */
  #closed: Promise<void> | undefined;

  constructor(options: DelivererOptions) {
    const { clock, targets, resolver, resolve, hex, ca } = options;
    this.#clock = clock;
    this.#hex = hex ?? cryptoHex();
    this.#deadlines = new DeadlineTimer(clock);
    this.#check = memoize(MAX_VERDICTS, (targetUrl) => checkTarget(targetUrl, targets));
    const sessions = createTlsSessions();
    this.#connector = new Connector({
      clock,
      policy: () => targets,
      resolve: resolve ?? createResolver(clock, resolver),
      sessions,
      ca,
    });
    this.#agent = newAgent(this.#connector);
    const shared = { clock, deadlines: this.#deadlines, connector: this.#connector };
    this.#grpc = options.createGrpcSender(shared);
    this.#broker = options.createBrokerSender(shared);
  }

  deliver(request: DeliverRequest, options: DeliverOptions): Promise<AttemptResult> {
    assertRange("attemptTimeoutMs", options.attemptTimeoutMs, 1, 600_000);
    assertRange("connectTimeoutMs", options.connectTimeoutMs, 1, 60_000);
    if (this.#closed || options.signal?.aborted) return Promise.resolve(ABORTED);
    const target = this.#check(request.targetUrl);
    if (!target.ok) return Promise.resolve(refused(target));
    const now = options.now ?? this.#clock.now();
    const headers = this.#headers(request, options.traceparent);
    const shared = { request, options, now, target, headers };
    if (target.grpc !== undefined) {
      const endpoint = { ...target.grpc, alpn: "h2" } as const;
      return new Promise((settle) => this.#grpc.send({ ...shared, endpoint, settle }));
    }
    if (target.broker !== undefined) {
      const { endpoint } = target.broker;
      return new Promise((settle) => this.#broker.send({ ...shared, endpoint, settle }));
    }
    // A target that reads it stops working when nobody waits for its response any more.
    headers.push("redrive-remaining-ms", String(options.attemptTimeoutMs));
    const dispatch = dispatchOptions(target, request, headers);
    return new Promise((settle) => this.#send(dispatch, { request, options, now, settle }));
  }

  close(): Promise<void> {
    const parts = [this.#agent, this.#grpc, this.#broker];
    this.#closed ??= Promise.all(parts.map((part) => part.close())).then(() => {});
    return this.#closed;
  }

  #send(dispatch: Dispatcher.DispatchOptions, call: AttemptCall): void {
    const attempt = new Attempt(this.#clock, this.#deadlines, call);
    this.#connector.opener = attempt;
    this.#agent.dispatch(dispatch, attempt);
    this.#connector.opener = undefined;
  }

  #headers(request: DeliverRequest, trace: string | undefined): string[] {
    const { taskId, attemptNumber } = request;
    const hop = hopsOf(request.headers) + 1;
    const given = overridesIn(request.headers);
    const idempotencyKey = request.idempotencyKey ?? given.idempotencyKey ?? null;
    const requestId = request.requestId ?? given.requestId ?? taskId;
    const traceparent = trace ?? attemptTraceparent(given.traceparent, taskId, this.#hex);
    const own = { taskId, attemptNumber, idempotencyKey, requestId, traceparent, hop };
    return requestHeaders(request.headers, own, request.signature);
  }
}

const ABORTED = notStarted({ kind: "aborted" }, null);

function newAgent(connector: Connector): Agent {
  return new Agent({
    connect: connector.connect,
    pipelining: 1,
    allowH2: false,
    maxHeaderSize: 16_384,
    keepAliveMaxTimeout: MAX_IDLE_MS,
    // undici's timeouts limit silence, not a whole attempt; the deadline timer does that.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

function dispatchOptions(
  { origin, path }: Target,
  { method, body, stream: long }: DeliverRequest,
  headers: string[],
): Dispatcher.DispatchOptions {
  if (long !== undefined) headers.push("content-length", String(long.length));
  // One literal: a spread is slow, and undici reads a dozen options of the object for each request.
  return {
    origin,
    path,
    method: method as Dispatcher.HttpMethod,
    headers,
    body: long === undefined ? body : long.stream,
  };
}

function refused({ kind, message }: RefusedTarget): AttemptResult {
  const errorClass = kind === "denied" ? "target-denied" : "invalid-request";
  return notStarted({ kind: "fault" }, { errorClass, errorMessage: message });
}
