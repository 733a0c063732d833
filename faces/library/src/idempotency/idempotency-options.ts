/** Idempotency options: what `idempotency` accepts, with its defaults and bounds. */
import { assertRange, type Clock, invalidArgument, systemClock, systemId } from "@redrive/core";
import type { ServedRequest } from "../serve/interceptor.ts";
import type { IdempotencyStore } from "../stores/idempotency-store.ts";
import type { IdempotencyListener } from "./idempotency-event.ts";

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
   * Whether a response with this status is stored. A key whose response is not stored is free again.
   * Default: 200 to 499, except 401, 408, 425 and 429.
   */
  readonly keepStatus?: ((status: number) => boolean) | undefined;
  /** How long a response is stored. 1 s to 72 h. Default: 24 h. */
  readonly retentionMs?: number | undefined;
  /** How long a key stays taken after its process crashed. 1 s to 1 h. Default: 30 s. */
  readonly leaseMs?: number | undefined;
  /** How long a handler may run before its lease is not renewed any more. Up to 24 h. Default: 15 min. */
  readonly maxRunMs?: number | undefined;
  /** Largest request body. 0 to 64 MiB. Default: 1 MiB. A larger one is refused (413). */
  readonly maxRequestBytes?: number | undefined;
  /** Largest response body that is stored. 1 byte to 16 MiB. Default: 1 MiB. */
  readonly maxResponseBytes?: number | undefined;
  /** Largest sum of response headers that is stored. 0 to 64 KiB. Default: 16 KiB. */
  readonly maxHeaderBytes?: number | undefined;
  /** Response headers that are not stored, such as `Set-Cookie`. Default: none. */
  readonly omitHeaders?: readonly string[] | undefined;
  /** How long to wait for the store. 100 ms to 1 min. Default: 5 s. */
  readonly storeTimeoutMs?: number | undefined;
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
  retentionMs: [24 * HOUR_MS, 1000, 72 * HOUR_MS],
  leaseMs: [30_000, 1000, HOUR_MS],
  maxRunMs: [HOUR_MS / 4, 1000, 24 * HOUR_MS],
  maxRequestBytes: [MIB, 0, 64 * MIB],
  maxResponseBytes: [MIB, 1, 16 * MIB],
  maxHeaderBytes: [16 * KIB, 0, 64 * KIB],
  storeTimeoutMs: [5000, 100, 60_000],
} as const;

/** Another attempt may have another result: log in again, or try again later. */
const PASSING_STATUSES = [401, 408, 425, 429];

function keepsByDefault(status: number): boolean {
  return status >= 200 && status < 500 && !PASSING_STATUSES.includes(status);
}

/** Throws unless every option is within its bounds. */
export function resolveOptions(options: IdempotencyOptions): IdempotencyConfig {
  const { store, scope, methods = ["POST", "PATCH"], omitHeaders = [] } = options;
  assertFunction("store.claim", store?.claim);
  assertFunction("scope", scope);
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
    keepStatus: options.keepStatus ?? keepsByDefault,
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
