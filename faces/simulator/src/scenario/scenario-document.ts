/**
 * Scenario documents: the JSON form of a scenario, and the check of its fields and of the rules
 * between them. Policies and guards in it are core's destination documents, so a policy that was
 * simulated can be copied into production unchanged.
 */
import {
  booleanRule,
  checkDestination,
  checkFields,
  checkPolicy,
  choiceRule,
  type DestinationDocument,
  type FieldProblem,
  type Fields,
  fieldProblem,
  isObject,
  listRule,
  numberRule,
  type Patience,
  POLICY_FIELDS,
  type PolicyDocument,
  type PresetName,
  presets,
  type Rule,
  textRule,
} from "@redrive/core";
import type { DurationDocument } from "../engine/durations.ts";

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

// Check scenario: checks the fields of a scenario and the rules between them, as core checks its
// documents. Messages suggest a name for an unknown field and quote a bad value.

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** Checked elsewhere. */
const anyRule: Rule = () => undefined;
const objectRule: Rule = (value) => (isObject(value) ? undefined : "an object");
const shareRule = numberRule(0, 1, true);

const COMMON_FIELDS: Fields = {
  world: choiceRule("CALLS", "CONTENTION", "QUEUE"),
  name: textRule(/^[a-z0-9-]{1,64}$/, "1 to 64 characters of a-z 0-9 -"),
  description: POLICY_FIELDS.description,
  horizonMs: numberRule(1, DAY_MS),
  windowMs: numberRule(1, HOUR_MS),
};

const CALLS_FIELDS: Fields = {
  ...COMMON_FIELDS,
  clients: objectRule,
  guards: choiceRule("PER_CLIENT", "SHARED"),
  patience: choiceRule("fail-fast", "wait"),
  tiers: listRule(anyRule, 1, 8),
  timeline: listRule(anyRule, 0, 64),
};

const OPEN_FIELDS: Fields = {
  kind: choiceRule("OPEN"),
  count: numberRule(1, 100_000),
  ratePerSecond: numberRule(0.001, 100_000, true),
  untilMs: numberRule(1, DAY_MS),
};

const CLOSED_FIELDS: Fields = {
  kind: choiceRule("CLOSED"),
  count: numberRule(1, 2_000_000),
  jobs: numberRule(1, 1_000_000),
  think: anyRule,
  startSpreadMs: numberRule(0, HOUR_MS),
};

const TIER_FIELDS: Fields = {
  name: textRule(/^[\s\S]{1,64}$/, "a text of 1 to 64 characters"),
  destination: objectRule,
  breakerPerShard: booleanRule,
  server: objectRule,
};

const SERVER_FIELDS: Fields = {
  capacityPerSecond: numberRule(0.001, 1_000_000, true),
  service: choiceRule("FIXED", "EXPONENTIAL"),
  queueMs: numberRule(0, DAY_MS),
  discipline: choiceRule("FIFO", "LIFO"),
  dropsExpired: booleanRule,
  latency: anyRule,
  perCallMs: numberRule(0, 60_000, true),
  hop: anyRule,
  failureRate: shareRule,
  shards: numberRule(1, 1000),
  overload: choiceRule("503", "429"),
  retryAfterMs: numberRule(0, DAY_MS),
};

const PHASE_FIELDS: Fields = {
  kind: choiceRule("OUTAGE", "PARTIAL", "SLOW", "CAPACITY", "SPIKE", "FAILOVER"),
  atMs: numberRule(0, DAY_MS),
  forMs: numberRule(1, DAY_MS),
  mode: choiceRule("FAIL_FAST", "HANG"),
  share: shareRule,
  factor: numberRule(0, 1000, true),
  ramp: booleanRule,
  warmMs: numberRule(0, HOUR_MS),
  tier: numberRule(0, 7),
  shard: numberRule(0, 999),
};

const CONTENTION_FIELDS: Fields = {
  ...COMMON_FIELDS,
  clientCount: numberRule(1, 10_000),
  hop: anyRule,
  policy: anyRule,
};

const QUEUE_FIELDS: Fields = {
  ...COMMON_FIELDS,
  ratePerSecond: numberRule(0.001, 10_000, true),
  workers: numberRule(1, 1000),
  work: anyRule,
  visibilityMs: numberRule(1, 43_200_000),
  maxReceives: numberRule(1, 1000),
  poisonShare: shareRule,
  failureRate: shareRule,
  crashesPerSecond: numberRule(0, 1000, true),
  commitMs: numberRule(0, HOUR_MS),
  policy: anyRule,
};

type Part = Readonly<Record<string, unknown>>;

/** Lists all problems of a scenario. `simulate` accepts a scenario without problems. */
export function checkScenario(document: unknown): readonly FieldProblem[] {
  if (!isObject(document)) return checkFields(document, CALLS_FIELDS, "", "the scenario");
  if (document["world"] === "CONTENTION") {
    return [
      ...checkFields(document, CONTENTION_FIELDS),
      ...durationProblems(document, ["hop"], ""),
      ...policyProblems(document["policy"]),
    ];
  }
  if (document["world"] === "QUEUE") {
    return [
      ...checkFields(document, QUEUE_FIELDS),
      ...durationProblems(document, ["work"], ""),
      ...policyProblems(document["policy"]),
    ];
  }
  return checkCalls(document);
}

function checkCalls(document: Part): readonly FieldProblem[] {
  const problems = [
    ...checkFields(document, CALLS_FIELDS),
    ...missingFields(document, ["clients"], ""),
  ];
  if (problems.length > 0) return problems;
  const tiers = (document["tiers"] ?? [{}]) as readonly unknown[];
  const timeline = (document["timeline"] ?? []) as readonly unknown[];
  const clients = document["clients"] as Part;
  return [
    ...checkClients(clients),
    ...tiers.flatMap((tier, index) => checkTier(tier, `tiers[${index}].`)),
    ...timeline.flatMap((phase, index) =>
      checkPhase(phase, `timeline[${index}].`, tiers as readonly TierDocument[], clients),
    ),
  ];
}

function checkClients(clients: Part): FieldProblem[] {
  const closed = clients["kind"] === "CLOSED";
  if (!closed && clients["kind"] !== "OPEN") {
    return [
      fieldProblem("clients.kind", clients["kind"], "clients.kind must be one of OPEN, CLOSED"),
    ];
  }
  return [
    ...checkFields(clients, closed ? CLOSED_FIELDS : OPEN_FIELDS, "clients."),
    ...missingFields(clients, [closed ? "count" : "ratePerSecond"], "clients."),
    ...durationProblems(clients, ["think"], "clients."),
  ];
}

function checkTier(tier: unknown, prefix: string): FieldProblem[] {
  const problems = checkFields(tier, TIER_FIELDS, prefix);
  if (!isObject(tier) || problems.length > 0) return problems;
  const { destination, server } = tier;
  return [
    ...(destination === undefined
      ? []
      : withPrefix(checkDestination(destination), `${prefix}destination.`)),
    ...(isObject(server) ? checkFields(server, SERVER_FIELDS, `${prefix}server.`) : []),
    ...(isObject(server) ? durationProblems(server, ["latency", "hop"], `${prefix}server.`) : []),
  ];
}

function checkPhase(
  phase: unknown,
  prefix: string,
  tiers: readonly TierDocument[],
  clients: Part,
): FieldProblem[] {
  const problems = checkFields(phase, PHASE_FIELDS, prefix);
  if (!isObject(phase)) return problems;
  problems.push(...missingFields(phase, ["kind", "atMs", "forMs"], prefix));
  if (problems.length > 0) return problems;
  const reject = (name: string, wanted: string) =>
    problems.push(fieldProblem(prefix + name, phase[name], `${prefix + name} must be ${wanted}`));
  const { kind, tier = tiers.length - 1, shard = 0 } = phase as Partial<PhaseDocument>;
  const { shards = 1 } = tiers[tier]?.server ?? {};
  if (tier >= tiers.length) reject("tier", `below ${tiers.length}`);
  else if (shard >= shards) reject("shard", `below ${shards}`);
  if (kind === "SPIKE" && clients["kind"] === "CLOSED")
    reject("kind", "another kind for CLOSED clients");
  return problems;
}

function durationProblems(part: Part, names: readonly string[], prefix: string): FieldProblem[] {
  return names
    .filter((name) => part[name] !== undefined)
    .flatMap((name) => checkDuration(part[name], prefix + name));
}

function policyProblems(policy: unknown): readonly FieldProblem[] {
  if (policy === undefined) return [];
  if (typeof policy !== "string") return checkPolicy(policy, "policy.");
  const wanted = choiceRule(...Object.keys(presets))(policy);
  return wanted === undefined ? [] : [fieldProblem("policy", policy, `policy must be ${wanted}`)];
}

function withPrefix(problems: readonly FieldProblem[], prefix: string): FieldProblem[] {
  return problems.map((one) => ({
    field: prefix + one.field,
    value: one.value,
    message: `${prefix.slice(0, -1)}: ${one.message}`,
  }));
}

const msRule = numberRule(0, 86_400_000, true);

const DURATION_FIELDS: Readonly<Record<string, Fields>> = {
  FIXED: { ms: msRule },
  UNIFORM: { minMs: msRule, maxMs: msRule },
  EXPONENTIAL: { meanMs: msRule },
  NORMAL: { meanMs: msRule, sdMs: msRule },
  LOGNORMAL: { medianMs: msRule, sigma: numberRule(0, 5, true) },
};

/** Lists every problem of the duration at `field`. */
export function checkDuration(value: unknown, field: string): FieldProblem[] {
  if (typeof value === "number") {
    const wanted = msRule(value);
    return wanted === undefined ? [] : [fieldProblem(field, value, `${field} must be ${wanted}`)];
  }
  const kinds = Object.keys(DURATION_FIELDS).join(", ");
  if (!isObject(value)) {
    return [
      fieldProblem(field, value, `${field} must be a number of ms or an object with kind ${kinds}`),
    ];
  }
  const { kind, ...rest } = value;
  const fields = typeof kind === "string" ? DURATION_FIELDS[kind] : undefined;
  if (fields === undefined) {
    return [fieldProblem(`${field}.kind`, kind, `${field}.kind must be one of ${kinds}`)];
  }
  const problems = [
    ...checkFields(rest, fields, `${field}.`),
    ...missingFields(rest, Object.keys(fields), `${field}.`),
  ];
  const { minMs, maxMs } = rest;
  if (problems.length === 0 && (maxMs as number) < (minMs as number)) {
    problems.push(
      fieldProblem(`${field}.maxMs`, maxMs, `${field}.maxMs must be at least ${minMs}`),
    );
  }
  return problems;
}

/** Reports each of `names` that `part` lacks. */
function missingFields(
  part: Readonly<Record<string, unknown>>,
  names: readonly string[],
  prefix: string,
): FieldProblem[] {
  return names
    .filter((name) => part[name] === undefined)
    .map((name) => fieldProblem(prefix + name, undefined, `${prefix}${name} must be given`));
}
