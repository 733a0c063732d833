/**
 * Scenario documents: the JSON form of a scenario. Policies and guards in it are core's destination
 * documents, so a policy that was simulated can be copied into production unchanged.
 */
import type { DestinationDocument, Patience, PolicyDocument, PresetName } from "@redrive/core";
import type { DurationDocument } from "../random/durations.ts";

interface CommonDocument {
  /** Short name for lists and links. `[a-z0-9-]`, 1 to 64 characters. */
  readonly name?: string;
  /** What the scenario shows. At most 500 characters. */
  readonly description?: string;
  /**
   * When the run ends; closed fleets run until the last client is done. 1 to 86 400 000. Default:
   * 60 000.
   */
  readonly horizonMs?: number;
  /** Width of the window in which the peak is counted. 1 to 3 600 000. Default: 100. */
  readonly windowMs?: number;
}

export interface OpenClients {
  /** Calls arrive independently of earlier ones (Poisson). */
  readonly kind: "OPEN";
  /**
   * Processes that share the traffic evenly, each with its own guards. 1 to 100 000. Default: 1.
   */
  readonly count?: number;
  /** Calls per second of all clients together. 0.001 to 100 000. */
  readonly ratePerSecond: number;
  /** No calls start after this instant; calls in progress are finished. Default: the horizon. */
  readonly untilMs?: number;
}

export interface ClosedClients {
  /** Each client has one call in progress at a time. */
  readonly kind: "CLOSED";
  /** 1 to 2 000 000. */
  readonly count: number;
  /** Calls of each client. 1 to 1 000 000. Default: as many as fit before the horizon. */
  readonly jobs?: number;
  /** Pause between two calls of a client. Default: 0. */
  readonly think?: DurationDocument;
  /** First calls are spread evenly over this time. 0 to 3 600 000. Default: 0, all at once. */
  readonly startSpreadMs?: number;
}

export interface ServerDocument {
  /**
   * Calls per second that it serves, one after the other. 0.001 to 1 000 000. Default: no limit.
   */
  readonly capacityPerSecond?: number;
  /** Distribution of the service times, with mean 1 / capacity. Default: FIXED. */
  readonly service?: "FIXED" | "EXPONENTIAL";
  /** Calls that would wait longer are refused at once. 0 to 86 400 000. Default: no bound. */
  readonly queueMs?: number;
  /** Which call is served next. Default: FIFO. */
  readonly discipline?: "FIFO" | "LIFO";
  /** Drops calls whose client has given up, instead of serving them. Default: false. */
  readonly dropsExpired?: boolean;
  /** Response time in addition to queue and service. Default: 0. */
  readonly latency?: DurationDocument;
  /** Added to the latency for every call in progress. 0 to 60 000. Default: 0. */
  readonly perCallMs?: number;
  /** One-way network delay. Default: 0. */
  readonly hop?: DurationDocument;
  /** Share of calls that fail at random. 0 to 1. Default: 0. */
  readonly failureRate?: number;
  /** Parts among which calls are spread evenly; an outage may affect one. 1 to 1000. Default: 1. */
  readonly shards?: number;
  /**
   * The status of a refusal: 503 (overloaded or unavailable), or 429 (too many calls), which
   * policies and budgets treat as throttling. An outage is always a 503. Default: 503.
   */
  readonly overload?: "503" | "429";
  /** The Retry-After of each refusal. 0 to 86 400 000. Default: no hint. */
  readonly retryAfterMs?: number;
}

/** A hop: the caller (policy and guards) and the server that it calls. */
export interface TierDocument {
  readonly name?: string;
  /** Core's destination document, or a preset's name. Guards are off unless given. */
  readonly destination?: DestinationDocument;
  /** One breaker per shard instead of one for all shards. Default: false. */
  readonly breakerPerShard?: boolean;
  readonly server?: ServerDocument;
}

export type PhaseKind = "OUTAGE" | "PARTIAL" | "SLOW" | "CAPACITY" | "SPIKE" | "FAILOVER";

export interface PhaseDocument {
  /**
   * OUTAGE: no call succeeds. PARTIAL: `share` of the calls fails. SLOW: latency and service take
   * `factor` times as long. CAPACITY: `factor` times the capacity. SPIKE: `factor` times the load.
   * FAILOVER: an outage that loses the queue, after which capacity returns over `warmMs`.
   */
  readonly kind: PhaseKind;
  /** 0 to 86 400 000. */
  readonly atMs: number;
  /** 1 to 86 400 000. */
  readonly forMs: number;
  /** For OUTAGE and FAILOVER: refuse at once, or let callers time out. Default: FAIL_FAST. */
  readonly mode?: "FAIL_FAST" | "HANG";
  /** For PARTIAL. 0 to 1. Default: 0.5. */
  readonly share?: number;
  /** For SLOW, CAPACITY and SPIKE. 0 to 1000. Default: 2 (SLOW, SPIKE) or 0.2 (CAPACITY). */
  readonly factor?: number;
  /** For SPIKE: the load grows linearly to the factor and falls back. Default: false. */
  readonly ramp?: boolean;
  /** For FAILOVER. 0 to 3 600 000. Default: 0. */
  readonly warmMs?: number;
  /** Index of the affected tier. Default: the last. */
  readonly tier?: number;
  /**
   * Affects only calls of this shard; the queue and the capacity belong to all shards and do not
   * change. Default: all shards.
   */
  readonly shard?: number;
}

/** Clients call servers. */
export interface CallsDocument extends CommonDocument {
  readonly world?: "CALLS";
  readonly clients: OpenClients | ClosedClients;
  /** Each client has its own guards, or all clients share one set. Default: PER_CLIENT. */
  readonly guards?: "PER_CLIENT" | "SHARED";
  /** What a call does when a guard holds it. Default: fail-fast. */
  readonly patience?: Patience;
  /** 1 to 8, outermost first: each calls the next. Default: one tier with defaults. */
  readonly tiers?: readonly TierDocument[];
  /** At most 64 phases. */
  readonly timeline?: readonly PhaseDocument[];
}

/** Clients write one row under optimistic concurrency control (Brooker 2015). */
export interface ContentionDocument extends CommonDocument {
  readonly world: "CONTENTION";
  /** 1 to 10 000. Default: 100. */
  readonly clientCount?: number;
  /** One-way network delay. Default: NORMAL, mean 10 ms, deviation 2 ms. */
  readonly hop?: DurationDocument;
  readonly policy?: PolicyDocument | PresetName;
}

/** Messages wait in a queue for workers that may crash (SQS, Kafka). */
export interface QueueDocument extends CommonDocument {
  readonly world: "QUEUE";
  /** Messages per second (Poisson). 0.001 to 10 000. Default: 10. */
  readonly ratePerSecond?: number;
  /** 1 to 1000. Default: 4. */
  readonly workers?: number;
  /** Time to process a message. Default: EXPONENTIAL, mean 100 ms. */
  readonly work?: DurationDocument;
  /**
   * An unfinished message becomes visible again after this time. 1 to 43 200 000 (12 h). Default:
   * 30 000.
   */
  readonly visibilityMs?: number;
  /**
   * A message that was received this often without success becomes a dead letter. 1 to 1000.
   * Default: 5.
   */
  readonly maxReceives?: number;
  /** Share of messages that can never succeed. 0 to 1. Default: 0. */
  readonly poisonShare?: number;
  /** Share of runs that fail at random. 0 to 1. Default: 0. */
  readonly failureRate?: number;
  /** Crashes per second of all workers together. 0 to 1000. Default: 0. */
  readonly crashesPerSecond?: number;
  /**
   * Interval at which workers commit finished work (Kafka). 0 to 3 600 000. Default: 0, at once.
   */
  readonly commitMs?: number;
  /** Waits before a failed message becomes visible again. Default: at once. */
  readonly policy?: PolicyDocument | PresetName;
}

export type ScenarioDocument = CallsDocument | ContentionDocument | QueueDocument;
