/**
 * Destination fields: the ranges of a destination document's parts, and the rules that involve several
 * fields. `destination.ts` defines the meaning of the document.
 */

import {
  booleanRule,
  checkFields,
  choiceRule,
  type FieldProblem,
  type Fields,
  fieldProblem,
  isObject,
  listRule,
  mustBeProblem,
  numberRule,
  type Rule,
  textRule,
} from "../documents/document.ts";
import { checkPolicy, POLICY_FIELDS } from "../policy/policy.ts";
import { presetPolicies } from "../policy/preset-policies.ts";
import { BREAKER_DEFAULTS } from "./breaker.ts";
import { CONCURRENCY_DEFAULTS } from "./concurrency.ts";
import { TOKEN_BUDGET_DEFAULTS } from "./retry-budget.ts";

const DAY_MS = 86_400_000;
const MILLION = 1_000_000;

/** `checkParts` checks the content of parts; this rule only checks that they are objects or false. */
const partRule: Rule = (value) =>
  value === false || isObject(value) ? undefined : "an object, or false";

export const DESTINATION_FIELDS: Fields = {
  description: POLICY_FIELDS["description"] as Rule,
  policy: (value) => (typeof value === "string" ? presetRule(value) : objectRule(value)),
  idempotent: booleanRule,
  retryBudget: partRule,
  breaker: partRule,
  concurrency: partRule,
  rate: partRule,
  hedge: partRule,
  retryAfterGate: partRule,
};

const presetRule: Rule = choiceRule(...Object.keys(presetPolicies));
const objectRule: Rule = (value) =>
  isObject(value) ? undefined : "a policy document or a preset's name";

/** A budget of an unknown kind is checked with `ratioFields`, and the message lists the kinds. */
const kindRule: Rule = choiceRule("RATIO", "TOKENS", "GRPC");

const ratioFields: Fields = {
  kind: kindRule,
  ratio: numberRule(0, 10, true),
  minPerSecond: numberRule(0, 1000, true),
  windowMs: numberRule(100, 3_600_000),
};

const tokenFields: Fields = {
  kind: kindRule,
  maxTokens: numberRule(1, MILLION),
  costPerRetry: numberRule(1, MILLION),
  costPerThrottle: numberRule(1, MILLION),
  refillPerSuccess: numberRule(0, MILLION),
};

const grpcFields: Fields = {
  kind: kindRule,
  maxTokens: numberRule(1, 1000, true),
  tokenRatio: numberRule(0.001, 1000, true),
};

const breakerFields: Fields = {
  failureRate: numberRule(0.01, 1, true),
  slowCallMs: numberRule(1, 600_000),
  slowRate: numberRule(0.01, 1, true),
  windowMs: numberRule(100, 3_600_000),
  minCalls: numberRule(1, MILLION),
  openMs: numberRule(1, DAY_MS),
  maxOpenMs: numberRule(1, DAY_MS),
  halfOpenProbes: numberRule(1, 10),
};

const concurrencyFields: Fields = {
  algorithm: choiceRule("FIXED", "GRADIENT", "VEGAS", "AIMD"),
  max: numberRule(1, 100_000),
  maxRetries: numberRule(0, 100_000),
  queue: numberRule(0, MILLION),
};

const rateFields: Fields = {
  perSecond: numberRule(0.001, MILLION, true),
  burst: numberRule(1, MILLION),
  adaptive: booleanRule,
  throttle: (value) =>
    typeof value === "boolean" || isObject(value) ? undefined : "true, false or an object",
};

const throttleFields: Fields = {
  k: numberRule(1, 100, true),
  windowMs: numberRule(100, 3_600_000),
};

const gateFields: Fields = { maxGateMs: numberRule(1, DAY_MS) };

const hedgeFields: Fields = {
  after: (value) =>
    isQuantile(value) ? undefined : afterRule(value) && "1 to 600000 ms, or p50 to p99.9",
  max: numberRule(1, 10),
  endpoints: listRule(textRule(/^https?:\/\/[^\s]{1,2000}$/, "an http(s) URL"), 0, 10),
};

const afterRule: Rule = numberRule(1, 600_000);

function isQuantile(value: unknown): boolean {
  return typeof value === "string" && /^p([5-9]\d)(\.\d)?$/.test(value);
}

/** Fields of the policy that people sometimes write next to it. */
const MISPLACED_FIELDS: Fields = Object.fromEntries(
  Object.keys(POLICY_FIELDS).map((name) => [name, () => `in policy: { ${name} }`]),
);

/** Checks the document's own fields, then each part with its own table. */
export function checkParts(document: unknown): FieldProblem[] {
  const problems = checkFields(
    document,
    { ...MISPLACED_FIELDS, ...DESTINATION_FIELDS },
    "",
    "the destination",
  );
  if (!isObject(document)) return problems;
  return [
    ...problems,
    ...(isObject(document["policy"]) ? checkPolicy(document["policy"], "policy.") : []),
    ...checkPart(document, "retryBudget", budgetFields(document["retryBudget"]), checkBudget),
    ...checkPart(document, "breaker", breakerFields, checkBreaker),
    ...checkPart(document, "concurrency", concurrencyFields, checkConcurrency),
    ...checkPart(document, "rate", rateFields, checkRate),
    ...checkPart(document, "hedge", hedgeFields),
    ...checkPart(document, "retryAfterGate", gateFields),
  ];
}

type Part = Readonly<Record<string, unknown>>;

function checkPart(
  document: Part,
  name: string,
  fields: Fields,
  together: (part: Part) => FieldProblem[] = () => [],
): FieldProblem[] {
  const part = document[name];
  if (!isObject(part)) return [];
  const problems = checkFields(part, fields, `${name}.`);
  return problems.length > 0 ? problems : together(part);
}

const budgetFieldsByKind: ReadonlyMap<unknown, Fields> = new Map([
  ["TOKENS", tokenFields],
  ["GRPC", grpcFields],
]);

function budgetFields(part: unknown): Fields {
  return budgetFieldsByKind.get(Object(part).kind) ?? ratioFields;
}

/** A number of the part, which is checked already, or its default. */
function numberOf(part: Part, name: string, fallback: number): number {
  return (part[name] as number | undefined) ?? fallback;
}

function checkBudget(part: Part): FieldProblem[] {
  if (part["kind"] !== "TOKENS") return [];
  const max = numberOf(part, "maxTokens", TOKEN_BUDGET_DEFAULTS.maxTokens);
  const costs = ["costPerRetry", "costPerThrottle", "refillPerSuccess"] as const;
  return costs.flatMap((name) => {
    const value = numberOf(part, name, TOKEN_BUDGET_DEFAULTS[name]);
    const wanted = `at most retryBudget.maxTokens (${max})`;
    return value > max ? mustBeProblem(`retryBudget.${name}`, value, wanted) : [];
  });
}

function checkBreaker(part: Part): FieldProblem[] {
  const openMs = numberOf(part, "openMs", BREAKER_DEFAULTS.openMs);
  const maxOpenMs = numberOf(part, "maxOpenMs", Math.max(BREAKER_DEFAULTS.maxOpenMs, openMs));
  const problems: FieldProblem[] = [];
  if (maxOpenMs < openMs) {
    const wanted = `at least breaker.openMs (${openMs})`;
    problems.push(mustBeProblem("breaker.maxOpenMs", maxOpenMs, wanted));
  }
  if (part["slowRate"] !== undefined && part["slowCallMs"] === undefined) {
    const text = "breaker.slowRate must come with breaker.slowCallMs";
    problems.push(fieldProblem("breaker.slowRate", part["slowRate"], text));
  }
  return problems;
}

function checkConcurrency(part: Part): FieldProblem[] {
  const max = numberOf(part, "max", CONCURRENCY_DEFAULTS.max);
  const maxRetries = numberOf(part, "maxRetries", max);
  if (maxRetries <= max) return [];
  return [mustBeProblem("concurrency.maxRetries", maxRetries, `at most concurrency.max (${max})`)];
}

function checkRate(part: Part): FieldProblem[] {
  const { burst, perSecond, throttle } = part as {
    [name in "burst" | "perSecond" | "throttle"]?: unknown;
  };
  if (burst !== undefined && perSecond === undefined) {
    return [fieldProblem("rate.burst", burst, "rate.burst must come with rate.perSecond")];
  }
  return isObject(throttle) ? checkFields(throttle, throttleFields, "rate.throttle.") : [];
}
