/**
 * Advise: the decision tree. Answers in; a policy, a destination, the reasons and the coverage out.
 * Where our answer is not that of the usual decision tree, it says so with both coverages. Every path leads to a
 * policy that passes lint.
 */
import {
  assertRange,
  checkFields,
  choiceRule,
  type DestinationDocument,
  DocumentError,
  formatDuration,
  formatInteger,
  formatPercent,
  numberRule,
  type PolicyDocument,
  resolvePolicy,
} from "@redrive/core";
import type { LintContext } from "../lint/subject.ts";
import { attemptsToOutlast, coverageOf } from "../schedule/coverage.ts";
import { tierLoad } from "../schedule/tier-load.ts";
import type { Answers, ClientClass } from "./questions.ts";
import { usualPolicy } from "./usual-policy.ts";

/** What the usual decision tree chooses instead, and its coverage. */
export interface UsualDifference {
  readonly usual: string;
  readonly ours: string;
  readonly usualCoverage: number;
  readonly ourCoverage: number;
}

export interface Advice {
  readonly policy: PolicyDocument;
  readonly destination: DestinationDocument;
  /** Sentences, in the order of the questions. */
  readonly reasons: readonly string[];
  /** Chance that the waits outlast the outage that was named. */
  readonly coverage: number;
  readonly differsFromUsual?: UsualDifference;
  /** What lint should know of the calls: `passesLint(destination, context)` holds. */
  readonly context: LintContext;
}

type AllAnswers = Required<Answers>;

const DEFAULTS: AllAnswers = {
  transient: true,
  idempotent: "yes",
  clients: "many",
  minimumWait: false,
  background: false,
  waits: "service",
  outageMs: 8000,
  tiers: 1,
  shards: 1,
};

const ANSWER_FIELDS = {
  transient: choiceOf(true, false),
  idempotent: choiceRule("yes", "key", "no"),
  clients: choiceRule("few", "many", "very-many"),
  minimumWait: choiceOf(true, false),
  background: choiceOf(true, false),
  waits: choiceRule("person", "service", "job"),
  outageMs: numberRule(0, 86_400_000),
  tiers: numberRule(1, 8),
  shards: numberRule(1, 1000),
};

function choiceOf(...values: readonly boolean[]): (value: unknown) => string | undefined {
  return (value) => (values.includes(value as boolean) ? undefined : "true or false");
}

/** Takes answers to the questions; those left out are answered with each question's fallback. */
export function advise(answers: Answers = {}): Advice {
  const problems = checkFields(answers, ANSWER_FIELDS);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  const all: AllAnswers = { ...DEFAULTS, ...answers };
  return all.transient ? adviseRetry(all) : adviseNone(all);
}

function adviseNone(answers: AllAnswers): Advice {
  const policy: PolicyDocument = {
    maxAttempts: 1,
    ...(isPersonWaiting(answers) && { totalBudgetMs: 5000, attemptTimeoutMs: 5000 }),
  };
  return {
    policy,
    destination: { policy },
    reasons: [
      "The error is permanent: asking again gets the same answer, so the call is made once.",
    ],
    coverage: answers.outageMs === 0 ? 1 : 0,
    context: contextOf(answers),
  };
}

/** Clients that lint is to think of, by class. */
const CLIENTS: Readonly<Record<ClientClass, number>> = { few: 5, many: 100, "very-many": 10_000 };

/** Somebody looks on: work in the background is not waited for, whoever asked for it. */
function isPersonWaiting({ waits, background }: AllAnswers): boolean {
  return waits === "person" && !background;
}

function contextOf(answers: AllAnswers): LintContext {
  const { clients, waits, shards, outageMs, background, idempotent } = answers;
  return {
    clients: CLIENTS[clients],
    waits: background ? "job" : waits,
    shards,
    breakerPerShard: shards > 1,
    idempotent: idempotent !== "no",
    ...(!isPersonWaiting(answers) && { outageMs }),
  };
}

function adviseRetry(answers: AllAnswers): Advice {
  const policy = policyFor(answers);
  const coverage = coverageOf(resolvePolicy(policy), answers.outageMs);
  const destination = destinationFor(answers, policy);
  const difference = differenceFrom(answers, policy, coverage);
  return {
    policy,
    destination,
    reasons: reasonsFor(answers, policy, coverage),
    coverage,
    ...(difference && { differsFromUsual: difference }),
    context: contextOf(answers),
  };
}

/** Only what certainly never arrived may be repeated without a key. */
const NEVER_SENT: PolicyDocument = {
  retryableStatusCodes: [],
  retryableGrpcCodes: [],
  retryableErrors: ["connect", "dns"],
};

/** No caller holds a connection open through a longer outage: that is work for a durable service. */
const MAX_HELD_MS = 60_000;

function isDurable({ background, waits, outageMs }: AllAnswers): boolean {
  return background || waits === "job" || (waits === "service" && outageMs > MAX_HELD_MS);
}

function policyFor(answers: AllAnswers): PolicyDocument {
  const { idempotent, minimumWait, outageMs } = answers;
  const isJob = isDurable(answers);
  const jitterType = minimumWait || isJob ? "EQUAL" : "FULL";
  const safety: PolicyDocument = {
    ...(idempotent === "no" ? NEVER_SENT : {}),
    ...(idempotent === "key" ? { requireIdempotencyKey: true } : {}),
  };
  if (isPersonWaiting(answers)) {
    const quick = {
      maxAttempts: 3,
      initialDelayMs: 50,
      maxDelayMs: 500,
      totalBudgetMs: 5000,
      attemptTimeoutMs: 1500,
    };
    return { ...quick, connectTimeoutMs: 1000, jitterType, ...safety };
  }
  return { ...fewestAttempts(outageMs, isJob, jitterType), ...safety };
}

/** Attempts from which and up to which advice goes; lint calls 100 endless. */
const MIN_ATTEMPTS = 3;
const MAX_ATTEMPTS = 60;
const WANTED_COVERAGE = 0.95;

/** The fewest attempts, three at least, that outlast the outage in 95 % of the cases. */
function fewestAttempts(
  outageMs: number,
  isJob: boolean,
  jitterType: "EQUAL" | "FULL",
): PolicyDocument {
  const initialDelayMs = isJob ? 1000 : 100;
  const maxMs = isJob ? 3_600_000 : 30_000;
  const maxDelayMs = Math.min(maxMs, Math.max(8 * initialDelayMs, Math.floor(outageMs / 2)));
  const attemptTimeoutMs = isJob ? 30_000 : 5000;
  const base = { initialDelayMs, maxDelayMs, jitterType, attemptTimeoutMs };
  const room = { ...base, maxAttempts: MAX_ATTEMPTS, totalBudgetMs: 31_536_000_000 };
  const needed = attemptsToOutlast(resolvePolicy(room), outageMs, WANTED_COVERAGE + 0.01);
  const maxAttempts = Math.max(MIN_ATTEMPTS, needed);
  return { ...base, maxAttempts, totalBudgetMs: totalBudgetFor({ ...base, maxAttempts }) };
}

/** All ceilings and all timeouts: nothing ends for lack of time. */
function totalBudgetFor(policy: {
  maxAttempts: number;
  initialDelayMs: number;
  maxDelayMs: number;
  attemptTimeoutMs: number;
}): number {
  let sumMs = policy.maxAttempts * policy.attemptTimeoutMs;
  let ceilingMs = policy.initialDelayMs;
  for (let n = 1; n < policy.maxAttempts; n++) {
    sumMs += Math.min(policy.maxDelayMs, ceilingMs);
    ceilingMs *= 2;
  }
  assertRange("totalBudgetMs", sumMs, 1, 31_536_000_000);
  return Math.max(30_000, sumMs);
}

function destinationFor(answers: AllAnswers, policy: PolicyDocument): DestinationDocument {
  const { clients, shards, idempotent } = answers;
  const isRead = isPersonWaiting(answers) && idempotent === "yes";
  const needsBreaker = clients === "very-many" || shards > 1;
  return {
    policy,
    ...(idempotent === "no" && { idempotent: false }),
    ...((clients !== "few" || isRead) && { retryBudget: { kind: "RATIO", ratio: 0.1 } }),
    ...(needsBreaker && { breaker: shards > 1 ? { minCalls: 100 } : {} }),
    ...(isRead && { hedge: { after: "p95", max: 1 } }),
  };
}

function reasonsFor(answers: AllAnswers, policy: PolicyDocument, coverage: number): string[] {
  const { idempotent, clients, minimumWait, waits, background, outageMs, tiers, shards } = answers;
  const attempts = policy.maxAttempts ?? 1;
  const outage = formatDuration(outageMs);
  const reasons = ["The error is transient, so another attempt is worth something."];
  if (idempotent === "no")
    reasons.push(
      "Repeating could do the work twice: only calls that certainly never left (connect, dns) are retried.",
    );
  if (idempotent === "key")
    reasons.push("An idempotency key makes repeating safe: calls without one are refused.");
  if (clients !== "few")
    reasons.push(
      "Clients that fail together must not come back together: jitter, and a budget of 10 % so that retries never become the load.",
    );
  if (clients === "very-many")
    reasons.push("Above 1,000 clients a breaker spares a dead server the attempts of everybody.");
  if (minimumWait) reasons.push("Equal jitter keeps at least half of each wait.");
  else if (policy.jitterType === "EQUAL")
    reasons.push("Equal jitter keeps at least half of each wait: fewer attempts outlast the same.");
  reasons.push(...endReasons(answers, attempts, coverage));
  if (waits === "service" && !background && outageMs > MAX_HELD_MS) {
    reasons.push(`No caller holds on for ${outage}: hand the call to the durable service.`);
  }
  if (tiers > 1) {
    const layers = Array.from({ length: tiers }, () => attempts);
    reasons.push(
      `Let only the outermost of the ${tiers} layers retry: all of them together would make ${formatInteger(tierLoad(layers, 1))} calls of one.`,
    );
  }
  if (shards > 1)
    reasons.push(
      `Keep one breaker per shard, over at least 100 calls: one of ${shards} shards being down must not cut off the rest.`,
    );
  return reasons;
}

/** When it gives up, and why then. */
function endReasons(answers: AllAnswers, attempts: number, coverage: number): string[] {
  const outage = formatDuration(answers.outageMs);
  const share = `${formatPercent(coverage)} of the cases`;
  if (!isPersonWaiting(answers)) {
    const fewest = attempts > MIN_ATTEMPTS ? "are the fewest that outlast" : "outlast";
    return [`${attempts} attempts ${fewest} ${outage} (${share}).`];
  }
  const quick = `A person waits: three attempts within 5 s. They outlast ${outage} in ${share}; what must survive longer belongs into the durable service.`;
  const hedged =
    "Reads are hedged at p95, within a budget of 10 %: 5 % more calls for a shorter tail.";
  return answers.idempotent === "yes" ? [quick, hedged] : [quick];
}

function differenceFrom(
  answers: AllAnswers,
  policy: PolicyDocument,
  ours: number,
): UsualDifference | undefined {
  const usual = usualPolicy(answers);
  const usualCoverage = coverageOf(resolvePolicy(usual.policy), answers.outageMs);
  const differs =
    usual.policy.jitterType !== policy.jitterType ||
    usual.policy.maxAttempts !== policy.maxAttempts;
  if (!differs) return undefined;
  const name = `${policy.jitterType} jitter, ${policy.maxAttempts} attempts from ${formatDuration(policy.initialDelayMs ?? 0)}`;
  return { usual: usual.name, ours: name, usualCoverage, ourCoverage: ours };
}
