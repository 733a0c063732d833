/**
 * Suggest name: what to write instead of an unknown field. It knows the options of other retry libraries, so
 * `retries: 3` gives `maxAttempts: 4`. Programs in a browser have `nearest-name.ts` instead (see `imports` in package.json).
 */
import { nearestName } from "./nearest-name.ts";

/** A field, or a field with its value such as `maxAttempts: 4`; undefined: nothing is close. */
export function suggestName(
  name: string,
  known: readonly string[],
  value: unknown,
): string | undefined {
  if (name === "policy" && known.includes("maxAttempts")) return POLICY_FIELDS_HINT;
  return (
    foreignName(name, known, value) ??
    nearestName(name, known) ??
    foreignName(nearestName(name, Object.keys(FOREIGN_OPTIONS)), known, value)
  );
}

/** A destination has a `policy`; the options of one call have its fields. */
const POLICY_FIELDS_HINT = "the fields of the policy themselves, such as maxAttempts: 3";

function foreignName(
  name: string | undefined,
  known: readonly string[],
  value: unknown,
): string | undefined {
  const isForeign = name !== undefined && Object.hasOwn(FOREIGN_OPTIONS, name);
  const option = isForeign ? FOREIGN_OPTIONS[name] : undefined;
  return option && foreignSuggestion(option, known, value);
}

/** Undefined if the document can have neither the field nor the part that contains it. */
function foreignSuggestion(
  { field, part, convert }: ForeignOption,
  known: readonly string[],
  value: unknown,
): string | undefined {
  const converted = convert(value);
  const text = converted === undefined ? field : `${field}: ${converted}`;
  if (part !== undefined && known.includes(part)) return `${part}: { ${text} }`;
  return known.includes(field) ? text : undefined;
}

// The options of p-retry, async-retry, cockatiel, axios-retry, got, ky, opossum and other libraries that
// mean the same as a field of ours.

interface ForeignOption {
  /** Our field. */
  readonly field: string;
  /** The part of a destination document that has the field. */
  readonly part?: string;
  /** The value for our field, as text; undefined: there is none for this value. */
  convert(value: unknown): string | undefined;
}

/** The most attempts of a policy. */
const MAX_ATTEMPTS = 1000;

type Convert = ForeignOption["convert"];

const same: Convert = (value) => {
  if (Array.isArray(value)) return value.every(isPlain) ? `[${value.join(", ")}]` : undefined;
  return isPlain(value) ? String(value) : undefined;
};

const isPlain = (value: unknown) => typeof value === "number" && value >= 0 && value < 2 ** 53;

/** Other libraries count retries, and a policy counts attempts. */
const onePlus: Convert = (value) => {
  if (value === Number.POSITIVE_INFINITY) return String(MAX_ATTEMPTS);
  if (!isPlain(value)) return "the number of retries + 1";
  return String(Math.min(MAX_ATTEMPTS, Math.floor(value as number) + 1));
};

const percent: Convert = (value) => (isPlain(value) ? String((value as number) / 100) : undefined);
const most: Convert = (value) => (value === true ? String(MAX_ATTEMPTS) : undefined);
const nameOnly: Convert = () => undefined;
/** A threshold above 1 counts failures, which has no equal here. */
const share: Convert = (value) =>
  isPlain(value) && (value as number) <= 1 ? String(value) : undefined;

const jitter: Convert = (value) => {
  if (value === false || value === "none" || value === 0) return "NONE";
  return "FULL";
};

const inPolicy = (field: string, convert: Convert = same): ForeignOption => ({
  field,
  part: "policy",
  convert,
});
const inBreaker = (field: string, convert: Convert = same): ForeignOption => ({
  field,
  part: "breaker",
  convert,
});
const inCall = (field: string): ForeignOption => ({ field, convert: nameOnly });

/** By name. The comments say whose options they are. */
export const FOREIGN_OPTIONS: Readonly<Record<string, ForeignOption>> = {
  // p-retry, async-retry, axios-retry, and many more
  retries: inPolicy("maxAttempts", onePlus),
  // openai, the AWS SDK version 2
  maxRetries: inPolicy("maxAttempts", onePlus),
  // got, ky
  limit: inPolicy("maxAttempts", onePlus),
  // exponential-backoff
  numOfAttempts: inPolicy("maxAttempts"),
  // BullMQ
  attempts: inPolicy("maxAttempts"),
  // async-retry
  forever: inPolicy("maxAttempts", most),
  // p-retry, async-retry
  factor: inPolicy("multiplier"),
  minTimeout: inPolicy("initialDelayMs"),
  maxTimeout: inPolicy("maxDelayMs"),
  randomize: inPolicy("jitterType", jitter),
  maxRetryTime: inPolicy("totalBudgetMs"),
  // cockatiel
  exponent: inPolicy("multiplier"),
  initialDelay: inPolicy("initialDelayMs"),
  maxDelay: inPolicy("maxDelayMs"),
  generator: inPolicy("jitterType", nameOnly),
  // exponential-backoff
  startingDelay: inPolicy("initialDelayMs"),
  timeMultiple: inPolicy("multiplier"),
  jitter: inPolicy("jitterType", jitter),
  // axios-retry
  retryDelay: inPolicy("initialDelayMs"),
  // got, ky
  backoffLimit: inPolicy("maxDelayMs"),
  delay: inPolicy("initialDelayMs"),
  calculateDelay: inPolicy("delaysMs", nameOnly),
  noise: inPolicy("jitterType", jitter),
  statusCodes: inPolicy("retryableStatusCodes"),
  maxRetryAfter: inPolicy("maxRetryAfterMs"),
  // got, ky, axios, opossum
  timeout: inPolicy("attemptTimeoutMs"),
  // axios-retry, cockatiel, got
  retryCondition: inCall("shouldRetry"),
  retryIf: inCall("shouldRetry"),
  retryOn: inCall("shouldRetry"),
  // async-retry, axios-retry, p-retry
  onRetry: inCall("onEvent"),
  onFailedAttempt: inCall("onEvent"),
  // opossum
  errorFilter: inCall("classify"),
  errorThresholdPercentage: inBreaker("failureRate", percent),
  resetTimeout: inBreaker("openMs"),
  rollingCountTimeout: inBreaker("windowMs"),
  volumeThreshold: inBreaker("minCalls"),
  capacity: { field: "max", part: "concurrency", convert: same },
  // a limit of parallel calls, by its most common name
  maxConcurrency: { field: "max", part: "concurrency", convert: same },
  // many breakers
  failureThreshold: inBreaker("failureRate", share),
  // a request, in most HTTP clients
  url: inCall("targetUrl"),
  // cockatiel
  halfOpenAfter: inBreaker("openMs"),
  threshold: inBreaker("failureRate"),
  duration: inBreaker("windowMs"),
};
