/**
 * Deliverer: makes one attempt safely. For HTTP it uses an undici agent that opens sockets through the
 * guarded connector, follows no redirects, decompresses nothing and retries nothing; core decides
 * about retries. gRPC calls and messages to brokers use the same connector. The end of an attempt is a
 * value; only incorrect use throws.
 */
import { type AbortSignalLike, assertRange, type Clock, systemBytes } from "@redrive/core";
import { Agent, type Dispatcher } from "undici";
import { memoize } from "../collections/bounded-cache.ts";
import type { Headers } from "../model/task.ts";
import { HOP_HEADER, hopsOf } from "../model/task.ts";
import { DeadlineTimer } from "../time/deadline-timer.ts";
import type { TargetPolicy } from "./address-guard.ts";
import {
  Attempt,
  type AttemptCall,
  type AttemptResult,
  type BodyStream,
  notStarted,
  type SessionAttemptCall,
} from "./attempt.ts";
import { Connector, createTlsSessions } from "./connector.ts";
import { createResolver, type Resolver, type ResolverKind } from "./lookup.ts";
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

// Request headers: the headers that an attempt sends. The task's headers were validated when it was
// created; those that belong to the connection or to the service are omitted here.

/** Headers of an attempt that the service sets. */
interface OwnHeaders {
  readonly taskId: string;
  /** From 1. */
  readonly attemptNumber: number;
  /** The same for every attempt; null: the task's id is used. */
  readonly idempotencyKey: string | null;
  readonly requestId: string;
  readonly traceparent: string;
  /** How many Redrive services the request has passed through; a loop makes it grow. */
  readonly hop: number;
}

/** Headers of the connection (RFC 9110 7.6.1), those that undici writes, and those set here. */
const OMITTED = new Set([
  "accept-encoding",
  "connection",
  "content-length",
  "expect",
  "host",
  "idempotency-key",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "traceparent",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "webhook-id",
  "webhook-signature",
  "webhook-timestamp",
  "x-request-id",
]);

/** The service's headers for which a task brings its own value. */
interface OverriddenHeaders {
  idempotencyKey?: string;
  requestId?: string;
  traceparent?: string;
}

const NO_OVERRIDES: OverriddenHeaders = {};

/** The caller's values win: its trace continues, and the target knows its key. */
export function overridesIn(task: Headers): OverriddenHeaders {
  let given = NO_OVERRIDES;
  for (const [name, value] of Object.entries(task)) {
    const field = OVERRIDABLE[name.toLowerCase()];
    if (field === undefined || value === "") continue;
    if (field !== "traceparent" || isTraceparent(value)) given = { ...given, [field]: value };
  }
  return given;
}

const OVERRIDABLE: Readonly<Record<string, keyof OverriddenHeaders>> = Object.assign(
  Object.create(null),
  {
    "idempotency-key": "idempotencyKey",
    "x-request-id": "requestId",
    traceparent: "traceparent",
  },
);

/** Alternating names and values, the form that undici takes without conversion. */
function requestHeaders(task: Headers, own: OwnHeaders, signature?: WebhookHeaders): string[] {
  const flat = [
    "idempotency-key",
    own.idempotencyKey ?? own.taskId,
    "redrive-task-id",
    own.taskId,
    "redrive-attempt",
    String(own.attemptNumber),
    HOP_HEADER,
    String(own.hop),
    "traceparent",
    own.traceparent,
    "x-request-id",
    own.requestId,
    // An uncompressed response needs no decompression: no zip bomb, and the log shows what was
    // sent.
    "accept-encoding",
    "identity",
  ];
  appendTask(flat, task);
  if (signature === undefined) return flat;
  for (const [name, value] of Object.entries(signature)) flat.push(name, value);
  return flat;
}

function appendTask(flat: string[], task: Headers): void {
  let hasAgent = false;
  for (const [name, value] of Object.entries(task)) {
    const lower = name.toLowerCase();
    if (OMITTED.has(lower) || lower.startsWith("redrive-")) continue;
    if (lower === "user-agent") hasAgent = true;
    flat.push(name, value);
  }
  if (!hasAgent) flat.push("user-agent", "Redrive");
}

// Trace: the W3C `traceparent` of an attempt. All attempts of a task have one trace id: that of the
// caller, or the task's own id. Each attempt is a span of its own.

/** Random lower-case hex of the given number of bytes. Injected, like all randomness. */
type HexSource = (bytes: number) => string;

/** A UUID has as many digits as a trace id. */
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

/**
 * The `traceparent` of one attempt: version 00, the trace id and the flags of the caller's valid
 * `traceparent`, or the task's id and sampled, with a new span id.
 */
export function attemptTraceparent(
  parent: string | undefined,
  taskId: string,
  hex: HexSource,
): string {
  if (parent !== undefined) return `00-${parent.slice(3, 35)}-${hex(8)}-${parent.slice(53, 55)}`;
  const traceId = UUID.test(taskId) ? withoutHyphens(taskId) : hex(16);
  return `00-${traceId}-${hex(8)}-01`;
}

function withoutHyphens(uuid: string): string {
  const start = uuid.slice(0, 8) + uuid.slice(9, 13) + uuid.slice(14, 18);
  return start + uuid.slice(19, 23) + uuid.slice(24);
}

/** True for a valid value (W3C Trace Context, any version of this format). */
export function isTraceparent(text: string): boolean {
  return /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/.test(text);
}

/** Drawn and converted in bulk; doing so per attempt would cost as much as the attempt. */
const POOL_BYTES = 6144;

/** The system's random source. Suitable for ids, not for keys. */
export function cryptoHex(): HexSource {
  let digits = "";
  let used = 0;
  return (bytes) => {
    if (used + bytes * 2 > digits.length) {
      digits = Buffer.from(systemBytes(Math.max(POOL_BYTES, bytes))).toString("hex");
      used = 0;
    }
    used += bytes * 2;
    return digits.slice(used - bytes * 2, used);
  };
}
