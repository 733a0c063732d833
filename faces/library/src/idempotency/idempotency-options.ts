/**
 * Idempotency options: what `idempotency` accepts, with its defaults and bounds, and the events that it
 * reports.
 */
import { assertRange, type Clock, invalidArgument, systemClock, systemId } from "@redrive/core";
import type { ServedRequest } from "../serve/interceptor.ts";
import { type IdempotencyStore, MAX_RETENTION_MS } from "./idempotency-store.ts";

export interface IdempotencyOptions<
  Native = unknown,
  Store extends IdempotencyStore = IdempotencyStore,
> {
  /** Where keys and responses are kept. */
  readonly store: Store;
  /**
   * Who sends the request, such as the id of an account. Keys of different callers never meet. Without
   * it, one caller could read the response of another by guessing a key.
   */
  readonly scope: (request: ServedRequest<Native>) => string | Promise<string>;
  /** Refuse a request without a key (400). Default: false, its handler runs without protection. */
  readonly required?: boolean | undefined;
  /** Requests with other methods are passed on. Default: POST and PATCH. */
  readonly methods?: readonly string[] | undefined;
  /** Name of the header. Default: `Idempotency-Key`. */
  readonly header?: string | undefined;
  /** Accept only keys in quotes, as the IETF draft demands. Default: false, bare keys are accepted too. */
  readonly quotedOnly?: boolean | undefined;
  /** Longest key. 1 to 1,024 characters. Default: 255. */
  readonly maxKeyLength?: number | undefined;
  /** Headers that are part of what a key stands for, such as `Content-Type`. Default: none. */
  readonly fingerprintHeaders?: readonly string[] | undefined;
  /**
   * The body as part of what a key stands for, for bodies that a parser does not keep, such as
   * uploads. Default: the body.
   */
  readonly fingerprintBody?:
    | ((request: ServedRequest<Native>) => string | Uint8Array | Promise<string | Uint8Array>)
    | undefined;
  /**
   * Whether the outcome of a handler with this status is stored. If not, the key is free again, and a
   * repetition runs the handler a second time. Default: every outcome is stored.
   */
  readonly keepStatus?: ((status: number) => boolean) | undefined;
  /**
   * What a repetition gets if the client left before the handler had completed its response, and the
   * handler does not complete it: a 409, or the part that the handler had written. Default: `refuse`.
   */
  readonly cutOffResponse?: "refuse" | "replay" | undefined;
  /** How long an outcome is stored. 1 s to 45 days. Default: 24 h. */
  readonly retentionMs?: number | undefined;
  /** How long a key stays taken after its process crashed. 1 s to 1 h. Default: 30 s. */
  readonly leaseMs?: number | undefined;
  /**
   * How long a handler may run until its outcome counts as unknown, and how long an outcome waits for a
   * store that fails. 1 s to 24 h. Default: 15 min.
   */
  readonly maxRunMs?: number | undefined;
  /** Largest request body. 0 to 64 MiB. Default: 1 MiB. A larger one is refused (413). */
  readonly maxRequestBytes?: number | undefined;
  /** Largest response body that is stored. 1 byte to 16 MiB. Default: 1 MiB. */
  readonly maxResponseBytes?: number | undefined;
  /** Largest sum of response headers that is stored. 0 to 64 KiB. Default: 16 KiB. */
  readonly maxHeaderBytes?: number | undefined;
  /** Response headers that are not stored, such as `Set-Cookie`. Default: none. */
  readonly omitHeaders?: readonly string[] | undefined;
  /** How long a request waits for the store. 100 ms to 1 min. Default: 5 s. */
  readonly storeTimeoutMs?: number | undefined;
  /**
   * Outcomes that wait in memory for a store that fails. With more, no request with a key is executed
   * (503). 1 to 1,000,000. Default: 10,000.
   */
  readonly maxWaiting?: number | undefined;
  /**
   * Bytes of the outcomes that wait in memory. Of those beyond them only the status is stored. 0 to 1 GiB.
   * Default: 64 MiB.
   */
  readonly maxWaitingBytes?: number | undefined;
  /** Your page on idempotency keys, which errors link to. Default: the page of Redrive on errors. */
  readonly documentationUrl?: string | undefined;
  readonly onEvent?: IdempotencyListener | undefined;
  /** Default: the system's. */
  readonly clock?: Clock | undefined;
  /** Creates the proof that a request holds its key. Default: random UUIDs. */
  readonly ids?: (() => string) | undefined;
}

/** Options without a default. */
type Optional = "fingerprintBody" | "documentationUrl" | "onEvent";

type Complete<T> = { readonly [Name in keyof T]-?: NonNullable<T[Name]> };

/** The options with their defaults. Names of methods are in capitals, names of headers in lowercase. */
export type IdempotencyConfig = Complete<Omit<IdempotencyOptions, Optional>> &
  Pick<IdempotencyOptions, Optional>;

const HOUR_MS = 3_600_000;
const KIB = 1024;
const MIB = 1024 * KIB;

/** Default, minimum and maximum. */
const BOUNDS = {
  maxKeyLength: [255, 1, 1024],
  retentionMs: [24 * HOUR_MS, 1000, MAX_RETENTION_MS],
  leaseMs: [30_000, 1000, HOUR_MS],
  maxRunMs: [HOUR_MS / 4, 1000, 24 * HOUR_MS],
  maxRequestBytes: [MIB, 0, 64 * MIB],
  maxResponseBytes: [MIB, 1, 16 * MIB],
  maxHeaderBytes: [16 * KIB, 0, 64 * KIB],
  storeTimeoutMs: [5000, 100, 60_000],
  maxWaiting: [10_000, 1, 1_000_000],
  maxWaitingBytes: [64 * MIB, 0, 1024 * MIB],
} as const;

/** Throws unless every option is within its bounds. */
export function resolveOptions(options: IdempotencyOptions): IdempotencyConfig {
  const { store, scope, methods = ["POST", "PATCH"], omitHeaders = [] } = options;
  assertFunction("store.claim", store?.claim);
  assertFunction("scope", scope);
  const { cutOffResponse = "refuse" } = options;
  if (cutOffResponse !== "refuse" && cutOffResponse !== "replay") {
    throw invalidArgument("cutOffResponse must be refuse or replay", cutOffResponse);
  }
  return {
    ...options,
    store,
    scope,
    ...numbersOf(options),
    required: options.required ?? false,
    methods: methods.map((method) => method.toUpperCase()),
    header: options.header ?? "Idempotency-Key",
    quotedOnly: options.quotedOnly ?? false,
    fingerprintHeaders: (options.fingerprintHeaders ?? []).map((name) => name.toLowerCase()),
    keepStatus: options.keepStatus ?? (() => true),
    cutOffResponse,
    omitHeaders: omitHeaders.map((name) => name.toLowerCase()),
    clock: options.clock ?? systemClock,
    ids: options.ids ?? systemId,
  };
}

function numbersOf(options: IdempotencyOptions): Record<keyof typeof BOUNDS, number> {
  const entries = Object.entries(BOUNDS).map(([name, [fallback, min, max]]) => {
    const value = options[name as keyof typeof BOUNDS] ?? fallback;
    assertRange(name, value, min, max);
    if (!Number.isInteger(value)) throw invalidArgument(`${name} must be a whole number`, value);
    return [name, value] as const;
  });
  return Object.fromEntries(entries) as Record<keyof typeof BOUNDS, number>;
}

function assertFunction(name: string, value: unknown): void {
  if (typeof value !== "function") throw invalidArgument(`${name} must be a function`, value);
}

export type IdempotencyEventType =
  /** The first request with its key: the handler runs. */
  | "claimed"
  /** The outcome of the request was stored. */
  | "stored"
  /** A repetition got the stored outcome. */
  | "replayed"
  /** A repetition came while the first request was running (409). */
  | "in-progress"
  /** The key was used with another payload (422). */
  | "mismatch"
  /** The handler threw. The response to that is stored like any other. */
  | "handler-failed"
  /** The handler was not called, or threw `NotExecuted`. The key is free again. */
  | "not-executed"
  /** The handler has released the key. */
  | "released"
  /** The response was not stored because of `keepStatus`. The key is free again. */
  | "not-kept"
  /** Only the status is stored: the response is too large, or a stream. A repetition gets 410. */
  | "not-stored"
  /** Nobody knows how the request ended. A repetition gets 409. */
  | "outcome-unknown"
  /** The store failed for `maxRunMs`: the outcome is not stored, and a repetition may run. */
  | "outcome-lost"
  /** Another request has taken the key over: this one ran longer than its lease (409). */
  | "lease-lost"
  /** The handler has run for `maxRunMs`. `outcome-unknown` follows. */
  | "run-too-long"
  /** The store failed; `during` says at what. */
  | "store-failed";

/** What happened to a request with a key, for logs and metrics. Events never contain keys, callers or payloads. */
export interface IdempotencyEvent {
  readonly type: IdempotencyEventType;
  /** Epoch ms. */
  readonly at: number;
  readonly method: string;
  /** Earlier requests with this key that ended without a response; only with `claimed`. */
  readonly takeovers?: number;
  /** Status of the handler's response, if there was one. */
  readonly status?: number;
  /** What the store was doing; only with `store-failed`. */
  readonly during?: "claim" | "renew" | "settle" | "release" | "sweep";
  /** What the store or the handler threw. */
  readonly error?: unknown;
}

export type IdempotencyListener = (event: IdempotencyEvent) => void;
