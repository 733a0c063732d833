/**
 * Check scenario: checks the fields of a scenario and the rules between them, as core checks its
 * documents. Messages suggest a name for an unknown field and quote a bad value.
 */
import {
  booleanRule,
  checkDestination,
  checkFields,
  checkPolicy,
  choiceRule,
  type FieldProblem,
  type Fields,
  fieldProblem,
  isObject,
  listRule,
  numberRule,
  POLICY_FIELDS,
  presets,
  type Rule,
  textRule,
} from "@redrive/core";
import { checkDuration, missingFields } from "../random/check-duration.ts";
import type { PhaseDocument, TierDocument } from "./scenario-document.ts";

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

export const CALLS_FIELDS: Fields = {
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

export const CONTENTION_FIELDS: Fields = {
  ...COMMON_FIELDS,
  clientCount: numberRule(1, 10_000),
  hop: anyRule,
  policy: anyRule,
};

export const QUEUE_FIELDS: Fields = {
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
