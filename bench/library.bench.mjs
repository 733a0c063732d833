/**
 * `npm run bench -- library [--node 24] [--json]`: what a call through `redrive` costs, beside its
 * peers: sequential awaited calls of an async no-op, as ratios to calling it plainly, in time of the
 * processor. Timeouts are enforced in all of ours; a peer is given the nearest it has.
 */
import { setImmediate as endOfTurn } from "node:timers/promises";
import { systemClock } from "@redrive/core";
import { destination, retry } from "redrive";
import { flat, judge, printVerdicts } from "./bars.mjs";
import { compareCpuTime } from "./cpu-time.mjs";
import {
  breakerPeers,
  failing,
  handWrittenRetry,
  handWrittenStack,
  noop,
  retryPeers,
  stackPeers,
  stayingBreakerPeers,
} from "./library-peers.mjs";

/** @typedef {import("./library-peers.mjs").Peer} Peer */
/** @typedef {import("./bars.mjs").Bar} Bar */

const ROUNDS = 31;
const ROUND_MS = 30;
const PLAIN = "plain await fn()";

/** On Node 20 making a signal costs forty times what it costs on 24; see library-anchors. */
const isNode20 = process.version.startsWith("v20.");

/**
 * Calls one after the other; then the turn of the event loop ends, as it would in a program, so that
 * timers and whatever a contender has put off get their due.
 * @param {Peer} peer
 */
function sequential({ name, call }) {
  async function run(/** @type {number} */ operations) {
    for (let i = 0; i < operations; i++) await call();
    await endOfTurn();
  }
  return { name, run };
}

/**
 * The same for calls that reject, each of which is caught.
 * @param {Peer} peer
 */
function sequentialFailures({ name, call }) {
  async function run(/** @type {number} */ operations) {
    let caught = 0;
    for (let i = 0; i < operations; i++) {
      try {
        await call();
      } catch {
        caught++;
      }
    }
    await endOfTurn();
    return caught;
  }
  return { name, run };
}

/**
 * @param {string} name
 * @param {readonly { name: string, run: (operations: number) => Promise<unknown> }[]} contenders
 * @param {readonly Bar[]} bars
 */
async function section(name, contenders, bars) {
  const report = await compareCpuTime({ name, contenders, rounds: ROUNDS, roundMs: ROUND_MS });
  printVerdicts(name, judge(report, bars));
  return report;
}

/** @param {readonly Peer[]} peers */
const namesOf = (peers) => peers.map(({ name }) => name);

/** @type {Peer} */
const plain = { name: PLAIN, call: noop };

async function retryOnly() {
  const kept = { maxAttempts: 3, totalBudgetMs: 8_000 };
  const ours = [
    { name: "redrive, options kept", call: () => retry(noop, kept) },
    {
      name: "redrive, options in the call",
      call: () => retry(noop, { maxAttempts: 3, totalBudgetMs: 8_000 }),
    },
  ];
  const hand = { name: "hand-written loop", call: handWrittenRetry };
  await section(
    "(a) retry only, success at once",
    [plain, ...ours, hand, ...retryPeers].map(sequential),
    [
      { of: "redrive, options kept", ratio: 5, bytes: 1_200, below: namesOf(retryPeers) },
      { of: "redrive, options in the call", ratio: 8, bytes: 1_200 },
    ],
  );
}

async function breakerOnly() {
  const ours = destination("bench", {
    policy: { maxAttempts: 1 },
    retryBudget: false,
    breaker: {},
  });
  const name = "redrive breaker";
  await section(
    "(b) breaker only, closed",
    [plain, { name, call: () => ours.run(noop) }, ...breakerPeers].map(sequential),
    [{ of: name, ratio: 5, below: namesOf(breakerPeers) }],
  );
}

async function wholeStack() {
  const policy = { maxAttempts: 3, attemptTimeoutMs: 2_000, totalBudgetMs: 8_000 };
  const ours = destination("bench", { policy, breaker: {} });
  const unread = "redrive, signal not read";
  const read = "redrive, signal read";
  const below = namesOf(stackPeers);
  await section(
    "(c) retry, breaker, attempt timeout and total deadline",
    [
      plain,
      { name: unread, call: () => ours.run(noop) },
      { name: read, call: () => ours.run(readSignal) },
      { name: "hand-written equivalent", call: handWrittenStack },
      ...stackPeers,
    ].map(sequential),
    [
      { of: unread, ratio: 20, bytes: 2_500, below },
      { of: read, ratio: isNode20 ? 60 : 35, below },
    ],
  );
}

/** @param {{ readonly signal: AbortSignal }} context */
async function readSignal({ signal }) {
  return signal;
}

const WINDOW_MS = 10_000;
const SIZES = [1_000, 10_000, 50_000];

/** One success in so many calls, the first among them, keeps a breaker closed that opens when all fail. */
const SUCCESS_EVERY = 50;

async function everyCallFails() {
  const ours = SIZES.map(failingDestination);
  const plainFailing = { name: "plain await that rejects", call: failing };
  const contenders = [plainFailing, ...ours, ...stayingBreakerPeers].map(sequentialFailures);
  const report = await section(
    "(d) breaker kept closed, every call rejects",
    contenders,
    ours.map(({ name }) => ({ of: name, ratio: 2 })),
  );
  printVerdicts("(d) flat", [flat(report, namesOf(ours), 1.25)]);
  const filled = ours.map(({ name, samples }, index) => {
    const held = samples();
    const ok = held > 0.7 * (SIZES[index] ?? 0);
    return { bar: `${name}: that many are in it`, got: `${held}`, ok };
  });
  printVerdicts("(d) windows", filled);
}

/**
 * A destination whose window holds about so many calls, whatever the machine's speed: its clock
 * moves on by a fixed span a call.
 * @param {number} size
 */
function failingDestination(size) {
  const startedAt = Date.now();
  let calls = 0;
  const passedMs = () => (calls * WINDOW_MS) / size;
  const clock = {
    ...systemClock,
    now: () => Math.floor(startedAt + passedMs()),
    monotonicMs: passedMs,
  };
  const ours = destination("bench", {
    policy: { maxAttempts: 1 },
    retryBudget: false,
    breaker: { failureRate: 1, windowMs: WINDOW_MS },
    clock,
  });
  /** @returns {Promise<unknown>} */
  function call() {
    calls++;
    return calls % SUCCESS_EVERY === 1 ? ours.run(noop) : ours.run(failing);
  }
  const samples = () => callsIn(ours.save().guards.breaker?.window.counts ?? []);
  return { name: `redrive, ${size} samples in the window`, call, samples };
}

/**
 * A saved window has three counts a bucket, of which the first is of calls.
 * @param {readonly number[]} counts
 */
function callsIn(counts) {
  return counts.reduce((sum, count, index) => (index % 3 === 0 ? sum + count : sum), 0);
}

/** What a call costs that ends in a later turn, as every call over a network does. For information. */
async function acrossTurns() {
  const kept = { maxAttempts: 3, totalBudgetMs: 8_000 };
  const policy = { maxAttempts: 3, attemptTimeoutMs: 2_000, totalBudgetMs: 8_000 };
  const ours = destination("bench", { policy, breaker: {} });
  const wait = () => endOfTurn();
  await section(
    "(e) for information: each call ends in a later turn of the event loop",
    [
      { name: PLAIN, call: wait },
      { name: "redrive retry", call: () => retry(wait, kept) },
      { name: "redrive stack", call: () => ours.run(wait) },
      { name: "redrive stack, signal read", call: () => ours.run(waitWith) },
      { name: "plain with a timer", call: () => withTimer(wait) },
    ].map(sequential),
    [],
  );
}

/** @param {{ readonly signal: AbortSignal }} context */
async function waitWith({ signal }) {
  await endOfTurn();
  return signal.aborted;
}

/** @param {() => Promise<unknown>} fn */
async function withTimer(fn) {
  const timer = setTimeout(() => undefined, 2_000);
  try {
    return await fn();
  } finally {
    clearTimeout(timer);
  }
}

/** `--only=a,d` runs these sections alone. */
const only = process.argv.find((word) => word.startsWith("--only="))?.slice("--only=".length);
const sections = {
  a: retryOnly,
  b: breakerOnly,
  c: wholeStack,
  d: everyCallFails,
  e: acrossTurns,
};
for (const [letter, run] of Object.entries(sections)) {
  if (only === undefined || only.includes(letter)) await run();
}
// Peers keep timers of their own.
process.exit();
