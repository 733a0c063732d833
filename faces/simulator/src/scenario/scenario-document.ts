/**
 * Scenario documents: the JSON form of a scenario. Policies and guards in it are core's destination
 * documents, so a policy that was simulated can be copied into production unchanged.
 */
import type { DestinationDocument, Patience, PolicyDocument, PresetName } from "@redrive/core";
import type { DurationDocument } from "../random/durations.ts";

interface CommonDocument {
  /** Short, for lists and links. `[a-z0-9-]`, 1 to 64 characters. */
  readonly name?: string;
  /** What it shows. At most 500 characters. */
  readonly description?: string;
  /** The run ends here; closed fleets run until the last client is done. 1 to 86 400 000. Default: 60 000. */
  readonly horizonMs?: number;
  /** Width of the window in which the peak is counted. 1 to 3 600 000. Default: 100. */
  readonly windowMs?: number;
}

export interface OpenClients {
  /** Calls come whether earlier ones are answered or not (Poisson). */
  readonly kind: "OPEN";
  /** Processes that share the traffic evenly, each with guards of its own. 1 to 100 000. Default: 1. */
  readonly count?: number;
  /** Calls a second of all clients together. 0.001 to 100 000. */
  readonly ratePerSecond: number;
  /** No new calls from then on; those under way are finished. Default: the horizon. */
  readonly untilMs?: number;
}

export interface ClosedClients {
  /** Each client has one call under way at a time. */
  readonly kind: "CLOSED";
  /** 1 to 2 000 000. */
  readonly count: number;
  /** Calls of each client. 1 to 1 000 000; left out: as many as fit before the horizon. */
  readonly jobs?: number;
  /** Between two calls of a client. Default: 0. */
  readonly think?: DurationDocument;
  /** First calls are spread evenly over this. 0 to 3 600 000. Default: 0, all at once. */
  readonly startSpreadMs?: number;
}

export interface ServerDocument {
  /** Calls a second it can serve, one after the other. 0.001 to 1 000 000. Default: no limit. */
  readonly capacityPerSecond?: number;
  /** Service times around 1 / capacity. Default: FIXED. */
  readonly service?: "FIXED" | "EXPONENTIAL";
  /** Calls that would wait longer are refused at once. 0 to 86 400 000. Default: no bound. */
  readonly queueMs?: number;
  /** Who is served next. Default: FIFO. */
  readonly discipline?: "FIFO" | "LIFO";
  /** Calls whose client has given up are dropped unserved. Default: false. */
  readonly dropsExpired?: boolean;
  /** Time to answer beside queue and service. Default: 0. */
  readonly latency?: DurationDocument;
  /** Added to the latency for every call in progress. 0 to 60 000. Default: 0. */
  readonly perCallMs?: number;
  /** One way on the wire. Default: 0. */
  readonly hop?: DurationDocument;
  /** Share of calls that fail by themselves. 0 to 1. Default: 0. */
  readonly failureRate?: number;
  /** Parts among which calls are spread evenly; an outage may hit one. 1 to 1000. Default: 1. */
  readonly shards?: number;
  /**
   * The status of a refusal: 503 (overloaded, or away), or 429 (too many calls), which policies and
   * budgets treat as throttling. An outage is always a 503. Default: 503.
   */
  readonly overload?: "503" | "429";
  /** Asked for with each refusal (Retry-After). 0 to 86 400 000. Default: no hint. */
  readonly retryAfterMs?: number;
}

/** A hop: who calls (policy and guards) and what is called. */
export interface TierDocument {
  readonly name?: string;
  /** Core's destination document, or a preset's name. Guards are off unless given. */
  readonly destination?: DestinationDocument;
  /** One breaker per shard instead of one for all. Default: false. */
  readonly breakerPerShard?: boolean;
  readonly server?: ServerDocument;
}

export type PhaseKind = "OUTAGE" | "PARTIAL" | "SLOW" | "CAPACITY" | "SPIKE" | "FAILOVER";

export interface PhaseDocument {
  /**
   * OUTAGE: nothing is answered. PARTIAL: `share` of the calls fails. SLOW: latency and service
   * take `factor` times as long. CAPACITY: `factor` times the capacity. SPIKE: `factor` times the
   * load. FAILOVER: an outage that loses the queue, after which capacity returns over `warmMs`.
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
  /** For SPIKE: up to the factor and down again in a straight line. Default: false. */
  readonly ramp?: boolean;
  /** For FAILOVER. 0 to 3 600 000. Default: 0. */
  readonly warmMs?: number;
  /** Index of the tier it happens to. Default: the last. */
  readonly tier?: number;
  /** Only calls of this shard; queue and capacity are all shards' and stay as they are. Default: all. */
  readonly shard?: number;
}

/** Clients call servers. */
export interface CallsDocument extends CommonDocument {
  readonly world?: "CALLS";
  readonly clients: OpenClients | ClosedClients;
  /** Every client has guards of its own, or all share one set. Default: PER_CLIENT. */
  readonly guards?: "PER_CLIENT" | "SHARED";
  /** What a shut gate means to a call. Default: fail-fast. */
  readonly patience?: Patience;
  /** 1 to 8, from the clients inward: each calls the next. Default: one tier with defaults. */
  readonly tiers?: readonly TierDocument[];
  /** At most 64 phases. */
  readonly timeline?: readonly PhaseDocument[];
}

/** Clients write one row under optimistic concurrency control (Brooker 2015). */
export interface ContentionDocument extends CommonDocument {
  readonly world: "CONTENTION";
  /** 1 to 10 000. Default: 100. */
  readonly clientCount?: number;
  /** One way on the wire. Default: NORMAL, mean 10 ms, deviation 2 ms. */
  readonly hop?: DurationDocument;
  readonly policy?: PolicyDocument | PresetName;
}

/** Messages wait in a queue for workers that may crash (SQS, Kafka). */
export interface QueueDocument extends CommonDocument {
  readonly world: "QUEUE";
  /** Messages a second (Poisson). 0.001 to 10 000. Default: 10. */
  readonly ratePerSecond?: number;
  /** 1 to 1000. Default: 4. */
  readonly workers?: number;
  /** How long a message takes. Default: EXPONENTIAL, mean 100 ms. */
  readonly work?: DurationDocument;
  /** A message not finished by then is handed out again. 1 to 43 200 000 (12 h). Default: 30 000. */
  readonly visibilityMs?: number;
  /** Handed out this often without success, it is set aside as a dead letter. 1 to 1000. Default: 5. */
  readonly maxReceives?: number;
  /** Share of messages that can never succeed. 0 to 1. Default: 0. */
  readonly poisonShare?: number;
  /** Share of runs that fail by chance. 0 to 1. Default: 0. */
  readonly failureRate?: number;
  /** Worker crashes a second, all workers together. 0 to 1000. Default: 0. */
  readonly crashesPerSecond?: number;
  /** Done work is only told to the queue this often (Kafka's commit). 0 to 3 600 000. Default: 0, at once. */
  readonly commitMs?: number;
  /** Waits before a failed message is handed out again. Default: at once. */
  readonly policy?: PolicyDocument | PresetName;
}

export type ScenarioDocument = CallsDocument | ContentionDocument | QueueDocument;
