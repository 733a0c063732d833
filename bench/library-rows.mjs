/**
 * Library rows: the contenders of `redrive`, created from one built checkout, so that two checkouts
 * can be measured in one run.
 */
import { join } from "node:path";
import { setImmediate as endOfTurn } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { failing, noop } from "./library-peers.mjs";

/** @typedef {import("./library-peers.mjs").Peer} Peer */

/**
 * @typedef {object} Checkout
 * @property {typeof import("redrive").retry} retry
 * @property {typeof import("redrive").destination} destination
 * @property {typeof import("@redrive/core").systemClock} systemClock
 */

/**
 * Loads the packages of a built checkout.
 * @param {string} path of its root
 * @returns {Promise<Checkout>}
 */
export async function loadCheckout(path) {
  const load = (/** @type {string} */ name) =>
    import(pathToFileURL(join(path, name, "dist", "index.js")).href);
  const { retry, destination } = await load("faces/library");
  const { systemClock } = await load("core");
  return { retry, destination, systemClock };
}

const KEPT = { maxAttempts: 3, totalBudgetMs: 8_000 };
const STACK = { maxAttempts: 3, attemptTimeoutMs: 2_000, totalBudgetMs: 8_000 };
const LITERALS = 100;

/**
 * Option literals, as in different places of a program.
 * @type {readonly ((n: number) => object)[]}
 */
const WRITERS = [
  (n) => ({ maxAttempts: 3, totalBudgetMs: 8_000 + n }),
  (n) => ({ maxAttempts: 2, initialDelayMs: 10 + n, jitterType: "NONE" }),
  (n) => ({ attemptTimeoutMs: 1_000 + n, idempotencyKey: "order" }),
  (n) => ({ totalBudgetMs: 8_000 + n, maxDelayMs: 1_000, maxAttempts: 4 }),
];

/**
 * @param {Checkout} checkout
 * @returns {readonly Peer[]}
 */
export function retryRows({ retry }) {
  return [
    { name: "redrive, options kept", call: () => retry(noop, KEPT) },
    {
      name: "redrive, options in the call",
      call: () => retry(noop, { maxAttempts: 3, totalBudgetMs: 8_000 }),
    },
  ];
}

/**
 * @param {Checkout} checkout
 * @returns {readonly Peer[]}
 */
export function literalRows({ retry }) {
  let count = 0;
  function call() {
    count = (count + 1) % LITERALS;
    const writer = /** @type {(n: number) => object} */ (WRITERS[count % WRITERS.length]);
    return retry(noop, writer(count));
  }
  return [{ name: `redrive, ${LITERALS} option literals in turn`, call }];
}

/**
 * @param {Checkout} checkout
 * @returns {readonly Peer[]}
 */
export function breakerRows({ destination }) {
  const ours = destination("bench", {
    policy: { maxAttempts: 1 },
    retryBudget: false,
    breaker: {},
  });
  return [{ name: "redrive breaker", call: () => ours.run(noop) }];
}

/**
 * @param {Checkout} checkout
 * @returns {readonly Peer[]}
 */
export function stackRows({ destination }) {
  const ours = destination("bench", { policy: STACK, breaker: {} });
  return [
    { name: "redrive, signal not read", call: () => ours.run(noop) },
    { name: "redrive, signal read", call: () => ours.run(readSignal) },
  ];
}

/** @param {{ readonly signal: AbortSignal }} context */
async function readSignal({ signal }) {
  return signal;
}

const WINDOW_MS = 10_000;

/** Number of calls in the breaker's window. */
export const WINDOW_SIZES = [1_000, 10_000, 50_000];

/** One success in this many calls, starting with the first, keeps a breaker closed that opens if all fail. */
const SUCCESS_EVERY = 50;

/** @param {Checkout} checkout */
export function failingRows(checkout) {
  return WINDOW_SIZES.map((size) => failingRow(checkout, size));
}

/**
 * A destination whose window contains about this many calls on any machine, because its clock
 * advances by a fixed time per call.
 * @param {Checkout} checkout
 * @param {number} size
 */
function failingRow({ destination, systemClock }, size) {
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
 * A saved window has three counts per bucket; the first is the number of calls.
 * @param {readonly number[]} counts
 */
function callsIn(counts) {
  return counts.reduce((sum, count, index) => (index % 3 === 0 ? sum + count : sum), 0);
}

/** Ends in a later turn of the event loop, like every call over a network. */
export const wait = () => endOfTurn();

/**
 * @param {Checkout} checkout
 * @returns {readonly Peer[]}
 */
export function waitingRows({ retry, destination }) {
  const ours = destination("bench", { policy: STACK, breaker: {} });
  return [
    { name: "redrive retry", call: () => retry(wait, KEPT) },
    { name: "redrive stack", call: () => ours.run(wait) },
    { name: "redrive stack, signal read", call: () => ours.run(waitWith) },
  ];
}

/** @param {{ readonly signal: AbortSignal }} context */
async function waitWith({ signal }) {
  await endOfTurn();
  return signal.aborted;
}
