/**
 * Advise: turns answers into a policy, a destination, the reasons and the shares of calls that
 * survive: of one call with the policy, and of all calls of a process with the guards of the
 * destination. If the advice differs from the usual decision tree, it gives both coverages. Every
 * policy that it returns passes lint.
 */
import {
  assertRange,
  checkFields,
  choiceRule,
  type DestinationDocument,
  DocumentError,
  formatCount,
  formatDuration,
  formatInteger,
  formatPercent,
  type JitterType,
  numberRule,
  type Patience,
  type PolicyDocument,
  resolvePolicy,
} from "@redrive/core";
import { tierLoad } from "./lint/lint.ts";
import type { LintContext } from "./lint/rule.ts";
import { attemptsToOutlast, coverageOf } from "./schedule/coverage.ts";
import { MAX_SURVIVAL_CALLS, survival } from "./worlds/simulate.ts";

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
  /** Probability that the waits of one call outlast the outage of the answers. */
  readonly coverage: number;
  /** What calls to the destination do when a guard refuses an attempt. */
  readonly patience: Patience;
  /** The simulated share of `calls` calls of one process that survive the outage, with all guards. */
  readonly survival: { readonly calls: number; readonly share: number };
  readonly differsFromUsual?: UsualDifference;
  /** The lint context of the answers: `passesLint(destination, context)` is true. */
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
  callsPerProcess: 100,
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
  callsPerProcess: numberRule(1, MAX_SURVIVAL_CALLS),
  tiers: numberRule(1, 8),
  shards: numberRule(1, 1000),
};

function choiceOf(...values: readonly boolean[]): (value: unknown) => string | undefined {
  return (value) => (values.includes(value as boolean) ? undefined : "true or false");
}

/** Gives advice for the answers. Each missing answer gets the fallback of its question. */
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
    reasons: ["The error is permanent: a retry gets the same response, so the call is made once."],
    coverage: answers.outageMs === 0 ? 1 : 0,
    patience: "fail-fast",
    survival: { calls: answers.callsPerProcess, share: answers.outageMs === 0 ? 1 : 0 },
    context: contextOf(answers),
  };
}

/** The number of clients for lint, by class. */
const CLIENTS: Readonly<Record<ClientClass, number>> = { few: 5, many: 100, "very-many": 10_000 };

/** True if a person waits. Nobody waits for work in the background. */
function isPersonWaiting({ waits, background }: AllAnswers): boolean {
  return waits === "person" && !background;
}

function contextOf(answers: AllAnswers): LintContext {
  const { clients, waits, shards, outageMs, background, idempotent, callsPerProcess } = answers;
  return {
    clients: CLIENTS[clients],
    callsPerProcess,
    patience: patienceOf(answers),
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
  const patience = patienceOf(answers);
  const { callsPerProcess: calls } = answers;
  const share = survivalOf(answers, destination);
  return {
    policy,
    destination,
    reasons: [...reasonsFor(answers, policy, coverage), ...guardReasons(answers, coverage, share)],
    coverage,
    patience,
    survival: { calls, share },
    ...(difference && { differsFromUsual: difference }),
    context: contextOf(answers),
  };
}

/** A person is gone before a guard lets the call pass. Everybody else gains by waiting for it. */
function patienceOf(answers: AllAnswers): Patience {
  return isPersonWaiting(answers) ? "fail-fast" : "wait";
}

/** Of calls that share the destination. The outage fails in a way that the policy retries. */
function survivalOf(answers: AllAnswers, destination: DestinationDocument): number {
  const { outageMs, callsPerProcess: calls, idempotent } = answers;
  const policy = { ...(destination.policy as PolicyDocument), requireIdempotencyKey: false };
  const isRefused = idempotent === "no" && { retryableStatusCodes: [503] };
  const simulated = { ...destination, idempotent: true, policy: { ...policy, ...isRefused } };
  return survival(simulated, outageMs, { calls, patience: patienceOf(answers) }).share;
}

/** What the guards do to the calls of one process. */
function guardReasons(answers: AllAnswers, coverage: number, share: number): string[] {
  const { callsPerProcess } = answers;
  const calls = formatCount(callsPerProcess, "call");
  if (callsPerProcess === 1) return [];
  if (patienceOf(answers) === "wait") {
    return [
      `${calls} of one process share the guards of the destination. With patience "wait", a call that the budget refuses waits for it instead of ending: ${formatPercent(share)} survive.`,
    ];
  }
  if (share >= coverage - 0.01) return [];
  return [
    `${calls} of one process share the guards of the destination: an empty budget ends most of them at once, and ${formatPercent(share)} survive. Show a fallback, or hand such calls off to the durable service.`,
  ];
}

/** Without a key, only calls that certainly never arrived may be repeated. */
const NEVER_SENT: PolicyDocument = {
  retryableStatusCodes: [],
  retryableGrpcCodes: [],
  retryableErrors: ["connect", "dns"],
};

/** Callers do not keep a connection open for longer outages; those need the durable service. */
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

/** The range of attempts in an advice; lint reports 100 as endless. */
const MIN_ATTEMPTS = 3;
const MAX_ATTEMPTS = 60;
const WANTED_COVERAGE = 0.95;

/** The fewest attempts, but at least three, that outlast the outage in 95 % of the cases. */
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

/** The sum of all ceilings and all timeouts, so no call ends early. */
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
  const reasons = ["The error is transient, so a retry can succeed."];
  if (idempotent === "no")
    reasons.push(
      "A retry could do the work twice: only calls that were never sent (connect, dns) are retried.",
    );
  if (idempotent === "key")
    reasons.push("An idempotency key makes retries safe: calls without one are refused.");
  if (clients !== "few")
    reasons.push(
      "Clients that fail together must not retry together: jitter spreads them, and a budget of 10 % limits the load of retries.",
    );
  if (clients === "very-many")
    reasons.push(
      "Above 1,000 clients, a breaker keeps their attempts away from a server that is down.",
    );
  if (minimumWait) reasons.push("Equal jitter keeps at least half of each wait.");
  else if (policy.jitterType === "EQUAL")
    reasons.push(
      "Equal jitter keeps at least half of each wait, so fewer attempts outlast the outage.",
    );
  reasons.push(...endReasons(answers, attempts, coverage));
  if (waits === "service" && !background && outageMs > MAX_HELD_MS) {
    reasons.push(`No caller waits ${outage}: send the call through the durable service.`);
  }
  if (tiers > 1) {
    const layers = Array.from({ length: tiers }, () => attempts);
    reasons.push(
      `Let only the outermost of the ${tiers} layers retry: if all retry, one call becomes ${formatInteger(tierLoad(layers, 1))}.`,
    );
  }
  if (shards > 1)
    reasons.push(
      `Use one breaker per shard, over at least 100 calls: if one of ${shards} shards is down, the others must still get calls.`,
    );
  return reasons;
}

/** The reasons for the number of attempts. */
function endReasons(answers: AllAnswers, attempts: number, coverage: number): string[] {
  const outage = formatDuration(answers.outageMs);
  const share = `${formatPercent(coverage)} of the cases`;
  if (!isPersonWaiting(answers)) {
    const fewest = attempts > MIN_ATTEMPTS ? "are the fewest that outlast" : "outlast";
    return [`${attempts} attempts ${fewest} ${outage} (${share}).`];
  }
  const quick = `A person waits: three attempts within 5 s. They outlast ${outage} in ${share}; send calls that must survive longer outages through the durable service.`;
  const hedged =
    "Reads are hedged at p95 within a budget of 10 %: 5 % more calls give a shorter tail.";
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

/** What the usual decision tree chooses: a jitter and 3 to 6 attempts, with waits from 1 s to 30 s. */
interface UsualChoice {
  readonly name: string;
  readonly policy: PolicyDocument;
}

function usualPolicy(answers: Answers): UsualChoice {
  const jitterType = usualJitter(answers);
  const maxAttempts = answers.background === true ? 6 : 5;
  const names = {
    NONE: "no jitter",
    DECORRELATED: "decorrelated jitter",
    EQUAL: "equal jitter",
  } as const;
  const jitter =
    jitterType === "FULL" || jitterType === "PROPORTIONAL" ? "full jitter" : names[jitterType];
  return {
    name: `${jitter}, ${maxAttempts} attempts from 1 s to 30 s`,
    policy: {
      maxAttempts,
      initialDelayMs: 1000,
      maxDelayMs: 30_000,
      jitterType,
      totalBudgetMs: 600_000,
    },
  };
}

/**
 * The last question of the tree has priority: background job, then minimum wait, then number of
 * clients.
 */
function usualJitter({ background, minimumWait, clients }: Answers): JitterType {
  if (background === true) return "DECORRELATED";
  if (minimumWait === true) return "EQUAL";
  return clients === "few" ? "NONE" : "FULL";
}

// Questions of the advisor as data, so the terminal and the web page ask the same ones. The first
// five are those of the usual decision tree, in its order and with its thresholds; the others are
// ours.

export type QuestionId =
  | "transient"
  | "idempotent"
  | "clients"
  | "minimumWait"
  | "background"
  | "waits"
  | "outageMs"
  | "callsPerProcess"
  | "tiers"
  | "shards";

export interface Choice {
  readonly value: string | number | boolean;
  readonly label: string;
}

export interface Question {
  readonly id: QuestionId;
  readonly text: string;
  readonly help: string;
  /** The choices; for `number` they are suggestions. */
  readonly kind: "choice" | "number";
  readonly choices: readonly Choice[];
  /** For `number`. */
  readonly min?: number;
  readonly max?: number;
  /** The answer if none is given. */
  readonly fallback: string | number | boolean;
  /** Where the question comes from. */
  readonly from: "usual" | "redrive";
  /** The question is skipped after this answer, because the advice is already clear. */
  readonly skipIf?: { readonly id: QuestionId; readonly value: string | number | boolean };
}

/** How many clients may retry at once, in the classes of the usual tree. */
export type ClientClass = "few" | "many" | "very-many";

export interface Answers {
  readonly transient?: boolean;
  /** "key": not idempotent, but the caller can send an idempotency key. */
  readonly idempotent?: "yes" | "key" | "no";
  readonly clients?: ClientClass;
  readonly minimumWait?: boolean;
  readonly background?: boolean;
  readonly waits?: "person" | "service" | "job";
  /** The longest outage to survive. 0 to 86 400 000 ms (a day). */
  readonly outageMs?: number;
  /** Calls to the dependency that one process makes at the same time. 1 to 2000. */
  readonly callsPerProcess?: number;
  /** Layers on the path of the call, including this one. 1 to 8. */
  readonly tiers?: number;
  /** Parts of the dependency that fail independently. 1 to 1000. */
  readonly shards?: number;
}

const YES_NO: readonly Choice[] = [
  { value: true, label: "Yes" },
  { value: false, label: "No" },
];

type BaseQuestion = Omit<Question, "from" | "skipIf">;

/** The questions of the usual decision tree, in its order and with its thresholds. */
const USUAL_QUESTIONS: readonly BaseQuestion[] = [
  {
    id: "transient",
    text: "Is the error transient (429, 408, 500, 502, 503, 504, network timeout)?",
    help: "400, 401, 403, 404 and 422 do not change on a retry.",
    kind: "choice",
    choices: YES_NO,
    fallback: true,
  },
  {
    id: "idempotent",
    text: "Is the operation idempotent (safe to repeat)?",
    help: "After a timeout nobody knows whether the work was done.",
    kind: "choice",
    choices: [
      { value: "yes", label: "Yes: reads, PUT, DELETE" },
      { value: "key", label: "With an idempotency key" },
      { value: "no", label: "No" },
    ],
    fallback: "yes",
  },
  {
    id: "clients",
    text: "How many concurrent clients may retry simultaneously?",
    help: "Count processes, not users: everything that fails at the same moment.",
    kind: "choice",
    choices: [
      { value: "few", label: "Few (below 10)" },
      { value: "many", label: "Many (10 to 1000)" },
      { value: "very-many", label: "Very many (above 1000)" },
    ],
    fallback: "many",
  },
  {
    id: "minimumWait",
    text: "Do you need a guaranteed minimum wait time?",
    help: "For example because the server limits calls per second.",
    kind: "choice",
    choices: YES_NO,
    fallback: false,
  },
  {
    id: "background",
    text: "Is this a long-running background job?",
    help: "Work that may take minutes or hours.",
    kind: "choice",
    choices: YES_NO,
    fallback: false,
  },
];

/** Our own questions, which come after them. */
const REDRIVE_QUESTIONS: readonly BaseQuestion[] = [
  {
    id: "waits",
    text: "Who waits for the response?",
    help: "A person gives up after seconds, a service after its own deadline, a job never.",
    kind: "choice",
    choices: [
      { value: "person", label: "A person" },
      { value: "service", label: "Another service" },
      { value: "job", label: "Nobody: a job or a queue" },
    ],
    fallback: "service",
  },
  {
    id: "outageMs",
    text: "What is the longest outage it should survive, in milliseconds?",
    help: "A restart takes 1 s, a failover 8 s, a bad deployment 10 minutes.",
    kind: "number",
    choices: [
      { value: 1000, label: "1 s: a restart" },
      { value: 8000, label: "8 s: a failover" },
      { value: 60_000, label: "1 min" },
      { value: 600_000, label: "10 min: a bad deployment" },
      { value: 7_200_000, label: "2 h" },
    ],
    min: 0,
    max: 86_400_000,
    fallback: 8000,
  },
  {
    id: "callsPerProcess",
    text: "How many calls to it does one process make at the same time?",
    help: "They share the guards of a destination: one budget, one breaker.",
    kind: "number",
    choices: [
      { value: 1, label: "1: a script" },
      { value: 10, label: "10" },
      { value: 100, label: "100: a server" },
      { value: 400, label: "400" },
    ],
    min: 1,
    max: 2000,
    fallback: 100,
  },
  {
    id: "tiers",
    text: "How many layers on the path can retry, including this one?",
    help: "Client library, gateway, mesh, service: each layer that retries multiplies the load.",
    kind: "number",
    choices: [
      { value: 1, label: "1" },
      { value: 2, label: "2" },
      { value: 4, label: "4" },
    ],
    min: 1,
    max: 8,
    fallback: 1,
  },
  {
    id: "shards",
    text: "How many parts of the dependency fail independently?",
    help: "Shards, partitions, tenants. One breaker for all would also block the healthy ones.",
    kind: "number",
    choices: [
      { value: 1, label: "1" },
      { value: 3, label: "3" },
    ],
    min: 1,
    max: 1000,
    fallback: 1,
  },
];

/** If the error is permanent, the other questions do not matter. */
const NOT_TRANSIENT = { id: "transient", value: false } as const;

export const questions: readonly Question[] = [
  ...USUAL_QUESTIONS.map((asked): Question => ({ ...asked, from: "usual" })),
  ...REDRIVE_QUESTIONS.map((asked): Question => ({ ...asked, from: "redrive" })),
].map((question) =>
  question.id === NOT_TRANSIENT.id ? question : { ...question, skipIf: NOT_TRANSIENT },
);
