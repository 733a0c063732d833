/** Limiter options: what `overloadLimiter` accepts, with its defaults and bounds. */
import {
  assertRange,
  type Clock,
  invalidArgument,
  type Random,
  systemClock,
  systemRandom,
} from "@redrive/core";
import type { ServedRequest } from "../serve/interceptor.ts";

export interface OverloadLimiterOptions<Native = unknown> {
  /** Maximum number of requests in progress. 1 to 100,000. Default: 200. */
  readonly max?: number | undefined;
  /**
   * How the limit is found, below `max`: from the durations of requests (GRADIENT, VEGAS), from
   * refusals of what the server itself calls (AIMD), or it is `max` (FIXED). Default: GRADIENT.
   */
  readonly algorithm?: "GRADIENT" | "VEGAS" | "AIMD" | "FIXED" | undefined;
  /** Requests that may wait for a slot. 0 to 100,000. Default: 100. */
  readonly queue?: number | undefined;
  /** How long a request may wait for a slot. 1 ms to 1 min. Default: 1 s. */
  readonly maxQueueMs?: number | undefined;
  /** Longest `Retry-After`. 1 s to 1 h. Default: 60 s. */
  readonly maxRetryAfterMs?: number | undefined;
  /**
   * Who sends the request. A caller that uses more than its share is refused (429) before the others
   * are. Default: all requests count as one caller.
   */
  readonly caller?: ((request: ServedRequest<Native>) => string) | undefined;
  /** Requests that are passed on, such as health checks. Default: none. */
  readonly exempt?: ((request: ServedRequest<Native>) => boolean) | undefined;
  readonly onEvent?: ((event: OverloadEvent) => void) | undefined;
  /** Default: the system's. */
  readonly clock?: Clock | undefined;
  /** Default: the system's. */
  readonly random?: Random | undefined;
}

/** Why a request was refused. */
export type ShedReason =
  /** The queue was full, or the wait would have been too long. */
  | "overload"
  /** A first attempt took the place of this retry in the queue. */
  | "displaced"
  /** The caller has used its share. */
  | "caller"
  /** The client does not wait for the response any more. */
  | "deadline";

export interface OverloadEvent {
  readonly type: "shed";
  /** Epoch ms. */
  readonly at: number;
  readonly reason: ShedReason;
  readonly isRetry: boolean;
  /** What the client was told. */
  readonly retryAfterMs: number;
}

/** The state of a limiter, for reports. */
export interface LimiterStats {
  /** The current limit of requests in progress. */
  readonly limit: number;
  readonly inFlight: number;
  readonly queued: number;
  /** Requests that the server finishes per second while it is busy. */
  readonly drainPerSecond: number;
  readonly admitted: number;
  /** Refused requests by reason. */
  readonly shed: Readonly<Record<ShedReason, number>>;
}

type Optional = "caller" | "exempt" | "onEvent";
type Complete<T> = { readonly [Name in keyof T]-?: NonNullable<T[Name]> };

/** The options with their defaults. */
export type LimiterConfig = Complete<Omit<OverloadLimiterOptions, Optional>> &
  Pick<OverloadLimiterOptions, Optional>;

const ALGORITHMS = ["GRADIENT", "VEGAS", "AIMD", "FIXED"];

/** Default, minimum and maximum. */
const BOUNDS = {
  max: [200, 1, 100_000],
  queue: [100, 0, 100_000],
  maxQueueMs: [1000, 1, 60_000],
  maxRetryAfterMs: [60_000, 1000, 3_600_000],
} as const;

/** Throws unless every option is within its bounds. */
export function resolveLimiterOptions(options: OverloadLimiterOptions): LimiterConfig {
  const { algorithm = "GRADIENT" } = options;
  if (!ALGORITHMS.includes(algorithm)) {
    throw invalidArgument(`algorithm must be one of ${ALGORITHMS.join(", ")}`, algorithm);
  }
  const numbers = Object.entries(BOUNDS).map(([name, [fallback, min, max]]) => {
    const value = options[name as keyof typeof BOUNDS] ?? fallback;
    assertRange(name, value, min, max);
    if (!Number.isInteger(value)) throw invalidArgument(`${name} must be a whole number`, value);
    return [name, value] as const;
  });
  return {
    ...options,
    ...(Object.fromEntries(numbers) as Record<keyof typeof BOUNDS, number>),
    algorithm,
    clock: options.clock ?? systemClock,
    random: options.random ?? systemRandom,
  };
}
