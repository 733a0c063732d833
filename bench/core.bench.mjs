/**
 * `npm run bench -- core [--node 24] [--json]`: measures the cost of core's decisions and guard
 * steps in nanoseconds and bytes. They run on every call of every face, so each has a limit. Guards
 * live as long as the process, so their memory must not grow with the number of calls.
 */
import {
  Admission,
  checkPolicy,
  classifyError,
  classifyOutcome,
  compilePolicy,
  createBreaker,
  createConcurrency,
  createGuards,
  createRate,
  createRetryBudget,
  createThrottle,
  decide,
  enterThrottle,
  guardOptionsOf,
  quantileMs,
  recordThrottleResponse,
  resolveDestination,
  resolvePolicy,
  retryGates,
  SUCCESS,
  seededRandom,
  takeRate,
} from "@redrive/core";
import { BREAKER_DEFAULTS, enterBreaker, leaveBreaker } from "../core/dist/guards/breaker.js";
import {
  CONCURRENCY_DEFAULTS,
  enterConcurrency,
  leaveConcurrency,
} from "../core/dist/guards/concurrency.js";
import { createLatency, recordLatency } from "../core/dist/guards/latency.js";
import {
  ADAPTIVE_RATE_DEFAULTS,
  createAdaptiveRate,
  recordAdaptiveRateResponse,
  takeAdaptiveRate,
} from "../core/dist/guards/rate.js";
import {
  countFirstAttempt,
  recordBudgetSuccess,
  takeRetryToken,
} from "../core/dist/guards/retry-budget.js";
import { THROTTLE_DEFAULTS } from "../core/dist/guards/throttle.js";
import { judge as judgeBars, printVerdicts } from "./bars.mjs";
import { compareCpuTime } from "./cpu-time.mjs";
import { sink } from "./harness.mjs";

/** @typedef {import("./harness.mjs").Contender} Contender */

const ROUNDS = 31;
const ROUND_MS = 20;
const BAR_NS = 200;
/** Entering and leaving seven guards. */
const ADMISSION_BAR_NS = 1_000;

/** A tenth of a millisecond per call, so that windows roll over during the measurement. */
const CALLS_PER_MS = 10;
const START_AT = 1_700_000_000_000;

/** @param {number} i */
const at = (i) => START_AT + Math.floor(i / CALLS_PER_MS);

/**
 * Time advances from run to run, as for a real guard.
 * @param {string} name
 * @param {(i: number, now: number) => unknown} step
 * @returns {Contender}
 */
function steps(name, step) {
  let i = 0;
  function run(/** @type {number} */ operations) {
    /** @type {unknown} */
    let last;
    for (let left = operations; left > 0; left--) {
      last = step(i, at(i));
      i++;
    }
    return last;
  }
  return { name, run };
}

/** The cheapest operation, as the baseline of the ratios. */
const nothing = steps("nothing", (i, now) => i + now);

function decisions() {
  const policy = resolvePolicy({ maxAttempts: 5, totalBudgetMs: 30_000 });
  const kernel = compilePolicy(policy);
  const random = seededRandom("bench");
  const request = { method: "GET" };
  const first = { attempt: 1, startedAt: START_AT, previousDelayMs: 0 };
  const last = { attempt: 5, startedAt: START_AT, previousDelayMs: 100 };
  const status = /** @type {const} */ ({ kind: "status", status: 503 });
  const hinted = /** @type {const} */ ({ kind: "status", status: 503, retryAfterMs: 1_000 });
  const success = /** @type {const} */ ({ kind: "success" });
  const open = {};
  const plain = new Error("the other side is down");
  const refused = Object.assign(new Error("connect"), { code: "ECONNREFUSED" });
  return [
    steps("decide: retry", () => decide(policy, request, first, status, open, START_AT, random)),
    steps("decide: stop", () => decide(policy, request, last, status, open, START_AT, random)),
    steps("decide: hint", () => decide(policy, request, first, hinted, open, START_AT, random)),
    steps("decide: success", () => decide(policy, request, first, success, open, START_AT, random)),
    steps("kernel.next", (i) => kernel.next(1 + (i & 3), 100, 50, 0.5)),
    steps("judge", () => classifyOutcome(policy, status)),
    steps("classifyError: a code", () => classifyError(refused)),
    steps("classifyError: no marks", () => classifyError(plain)),
  ];
}

const half = () => 0.5;

function breakerAndBudgets() {
  const breaker = createBreaker(BREAKER_DEFAULTS, START_AT);
  const failing = createBreaker({ ...BREAKER_DEFAULTS, failureRate: 1 }, START_AT);
  const { retryBudget: ratioOptions } = resolveDestination({ retryBudget: { ratio: 0.5 } });
  const { retryBudget: tokenOptions } = resolveDestination({ retryBudget: { kind: "TOKENS" } });
  const { retryBudget: grpcOptions } = resolveDestination({ retryBudget: { kind: "GRPC" } });
  return [
    steps("breaker: enter, leave well", (_, now) =>
      leaveBreaker(breaker, now, enterBreaker(breaker, now), "success", 5, half),
    ),
    steps("breaker: enter, leave failed", (i, now) => {
      const outcome = i % 10 === 0 ? "success" : "failure";
      leaveBreaker(failing, now, enterBreaker(failing, now), outcome, 5, half);
    }),
    ...[ratioOptions, tokenOptions, grpcOptions].map((options) => budgetSteps(options)),
  ];
}

/** @param {import("@redrive/core").RetryBudgetOptions | undefined} options */
function budgetSteps(options) {
  if (options === undefined) throw new Error("expected a budget");
  const budget = createRetryBudget(options, START_AT);
  return steps(`budget ${options.kind}: first, take, success`, (_, now) => {
    countFirstAttempt(budget, now);
    const ticket = takeRetryToken(budget, now, false);
    recordBudgetSuccess(budget, ticket, false);
    return ticket;
  });
}

function limits() {
  const algorithms = /** @type {const} */ (["FIXED", "AIMD", "GRADIENT", "VEGAS"]);
  const rate = createRate({ perSecond: 5_000, burst: 100 }, START_AT);
  const adaptive = createAdaptiveRate(ADAPTIVE_RATE_DEFAULTS, START_AT);
  const throttle = createThrottle(THROTTLE_DEFAULTS, START_AT);
  return [
    ...algorithms.map((algorithm) => {
      const concurrency = createConcurrency({ ...CONCURRENCY_DEFAULTS, algorithm }, START_AT);
      return steps(`concurrency ${algorithm}: enter, leave`, (_, now) => {
        enterConcurrency(concurrency, false, now);
        leaveConcurrency(concurrency, now, false, "success", 5);
      });
    }),
    steps("rate: take", (_, now) => takeRate(rate, now)),
    steps("adaptive rate: take, answer", (i, now) => {
      const went = takeAdaptiveRate(adaptive, now);
      recordAdaptiveRateResponse(adaptive, now, i % 1_000 === 0);
      return went;
    }),
    steps("throttle: enter, answer", (_, now) => {
      const sent = enterThrottle(throttle, now, 0.5);
      recordThrottleResponse(throttle, now, true);
      return sent;
    }),
  ];
}

function observations() {
  const latency = createLatency(START_AT);
  const read = createLatency(START_AT);
  for (let i = 0; i < 1_000; i++) recordLatency(read, START_AT, i % 250);
  const { admission, breaker, applicant } = admissionOf({
    retryBudget: {},
    breaker: {},
    rate: { perSecond: 1_000 },
  });
  recordLatency(admission.guards.latency, START_AT, 10);
  return [
    steps("latency: record", (i, now) => recordLatency(latency, now, i % 250)),
    steps("latency: record, p95", (i, now) => {
      recordLatency(read, now, i % 250);
      return quantileMs(read, now, 0.95);
    }),
    steps("retryGates", (_, now) => retryGates(admission, applicant, breaker, now)),
    steps("admission: check", (_, now) => admission.check(applicant, breaker, now)),
  ];
}

/** @param {import("@redrive/core").DestinationDocument} document */
function admissionOf(document) {
  const destination = resolveDestination(document);
  const guards = createGuards(guardOptionsOf(destination), START_AT);
  const { policy, retryAfterGate } = destination;
  const admission = new Admission(guards, retryAfterGate, seededRandom("bench"));
  const applicant = /** @type {const} */ ({ kind: "first", patient: false, throttled: false });
  return { admission, policy, breaker: guards.breaker, applicant };
}

/** A call passes all guards of its destination, and all of them learn its result. */
function admissions() {
  const breakerOnly = admissionOf({ retryBudget: false, breaker: {} });
  const all = admissionOf({
    retryBudget: {},
    breaker: {},
    concurrency: { algorithm: "AIMD" },
    rate: { perSecond: 100_000, adaptive: true, throttle: true },
    retryAfterGate: {},
  });
  return [
    steps("admission: enter, leave, a breaker only", (_, now) => passed(breakerOnly, now)),
    steps("admission: enter, leave, all guards", (_, now) => passed(all, now)),
    steps("admission: enter, give back, all guards", (_, now) => {
      const { admission, breaker, applicant } = all;
      const permit = admission.enter(applicant, breaker, now);
      if (permit !== undefined) admission.handBack(permit, breaker, now);
    }),
  ];
}

/**
 * @param {ReturnType<typeof admissionOf>} of
 * @param {number} now
 */
function passed({ admission, policy, breaker, applicant }, now) {
  const permit = admission.enter(applicant, breaker, now);
  if (permit === undefined) throw new Error(`refused: ${admission.refusal}`);
  admission.leave(permit, breaker, policy, SUCCESS, "success", 5, now);
}

/** Runs once per document, not per call: for information. */
function documents() {
  const policy = { maxAttempts: 3, initialDelayMs: 50, totalBudgetMs: 8_000 };
  const document = { policy, breaker: {}, concurrency: { algorithm: "GRADIENT" } };
  return [
    steps("checkPolicy", () => checkPolicy(policy)),
    steps("resolve", () => resolvePolicy(policy)),
    steps("resolveDestination", () =>
      resolveDestination(/** @type {import("@redrive/core").DestinationDocument} */ (document)),
    ),
  ];
}

/**
 * @param {string} name
 * @param {readonly Contender[]} contenders
 * @param {number | undefined} barNs
 */
async function section(name, contenders, barNs) {
  const all = [nothing, ...contenders];
  const report = await compareCpuTime({ name, contenders: all, rounds: ROUNDS, roundMs: ROUND_MS });
  if (barNs === undefined) return;
  const bars = contenders.map((contender) => ({ of: contender.name, ns: barNs }));
  printVerdicts(name, [...judgeBars(report, bars), ...contenders.flatMap(keepsNothing)]);
}

const KEEP_OPERATIONS = 200_000;
const KEEP_MOST_BYTES = 64_000;

/**
 * Checks that memory does not grow after many steps and a garbage collection. Only with --expose-gc.
 * @param {Contender} contender
 */
function keepsNothing({ name, run }) {
  const { gc } = globalThis;
  if (gc === undefined) return [];
  gc();
  const before = process.memoryUsage().heapUsed;
  sink.last = run(KEEP_OPERATIONS);
  gc();
  const kept = Math.max(0, process.memoryUsage().heapUsed - before);
  return [
    {
      bar: `${name}: keeps at most ${KEEP_MOST_BYTES} bytes after ${KEEP_OPERATIONS} steps`,
      got: `${kept}`,
      ok: kept <= KEEP_MOST_BYTES,
    },
  ];
}

await section("decisions", decisions(), BAR_NS);
await section("breaker and budgets", breakerAndBudgets(), BAR_NS);
await section("limits", limits(), BAR_NS);
await section("observations", observations(), BAR_NS);
await section("admission", admissions(), ADMISSION_BAR_NS);
await section("documents, for information", documents(), undefined);
