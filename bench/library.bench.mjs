/**
 * `npm run bench -- library [--node 24] [--json] [--only=a,d] [--against <checkout>]`: measures the
 * cost of a call through `redrive` and its peers: sequential awaited calls of an async no-op, in CPU
 * time, as ratios to a plain call. Each round starts with a full garbage collection, as programs have
 * from time to time, so a library whose compiled code does not survive it pays in every round. Ours
 * always enforce timeouts; a peer uses its nearest option. `--against` compares two checkouts.
 */
import { setImmediate as endOfTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { MAX_RATIO, otherCheckout } from "./against.mjs";
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
import {
  breakerRows,
  failingRows,
  literalRows,
  loadCheckout,
  retryRows,
  stackRows,
  WINDOW_SIZES,
  wait,
  waitingRows,
} from "./library-rows.mjs";

/** @typedef {import("./library-peers.mjs").Peer} Peer */
/** @typedef {import("./library-rows.mjs").Checkout} Checkout */
/** @typedef {import("./bars.mjs").Bar} Bar */

const ROUNDS = 31;
/** Two checkouts differ by less than two libraries. */
const ROUNDS_AGAINST = 61;
const ROUND_MS = 30;
const PLAIN = "plain await fn()";
const otherPath = otherCheckout();

/** On Node 20, creating a signal costs forty times as much as on Node 24. */
const isNode20 = process.version.startsWith("v20.");

/**
 * Makes calls one after the other. Then the turn of the event loop ends, as in a program, so that
 * timers and deferred work of a contender run.
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
 * Does the same with calls that reject, and catches each.
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
  const report = await compareCpuTime({
    name,
    contenders,
    rounds: otherPath === undefined ? ROUNDS : ROUNDS_AGAINST,
    roundMs: ROUND_MS,
    collects: true,
  });
  printVerdicts(name, judge(report, bars));
  return report;
}

/** @param {readonly Peer[]} peers */
const namesOf = (peers) => peers.map(({ name }) => name);

/** @type {Peer} */
const plain = { name: PLAIN, call: noop };

/** @param {Checkout} checkout */
async function retryOnly(checkout) {
  const ours = retryRows(checkout);
  const [kept = "", inCall = ""] = namesOf(ours);
  const hand = { name: "hand-written loop", call: handWrittenRetry };
  await section(
    "(a) retry only, success at once",
    [plain, ...ours, hand, ...retryPeers].map(sequential),
    [
      { of: kept, ratio: 5, bytes: 1_200, below: namesOf(retryPeers) },
      { of: inCall, ratio: 8, bytes: 1_200 },
    ],
  );
}

/** @param {Checkout} checkout */
async function breakerOnly(checkout) {
  const ours = breakerRows(checkout);
  await section(
    "(b) breaker only, closed",
    [plain, ...ours, ...breakerPeers].map(sequential),
    ours.map(({ name }) => ({ of: name, ratio: 5, below: namesOf(breakerPeers) })),
  );
}

/** @param {Checkout} checkout */
async function wholeStack(checkout) {
  const ours = stackRows(checkout);
  const [unread = "", read = ""] = namesOf(ours);
  const below = namesOf(stackPeers);
  const hand = { name: "hand-written equivalent", call: handWrittenStack };
  await section(
    "(c) retry, breaker, attempt timeout and total deadline",
    [plain, ...ours, hand, ...stackPeers].map(sequential),
    [
      { of: unread, ratio: 10, bytes: 2_500, below },
      { of: read, ratio: isNode20 ? 60 : 35, below },
    ],
  );
}

/** @param {Checkout} checkout */
async function everyCallFails(checkout) {
  const ours = failingRows(checkout);
  const plainFailing = { name: "plain await that rejects", call: failing };
  const contenders = [plainFailing, ...ours, ...stayingBreakerPeers].map(sequentialFailures);
  const report = await section(
    "(d) breaker kept closed, every call rejects",
    contenders,
    ours.map(({ name }) => ({ of: name, ratio: 1.8 })),
  );
  printVerdicts("(d) flat", [flat(report, namesOf(ours), 1.25)]);
  const filled = ours.map(({ name, samples }, index) => {
    const held = samples();
    const ok = held > 0.7 * (WINDOW_SIZES[index] ?? 0);
    return { bar: `${name}: the window contains that many`, got: `${held}`, ok };
  });
  printVerdicts("(d) windows", filled);
}

/**
 * The cost of a call that ends in a later turn. For information.
 * @param {Checkout} checkout
 */
async function acrossTurns(checkout) {
  await section(
    "(e) for information: each call ends in a later turn of the event loop",
    [
      { name: PLAIN, call: wait },
      ...waitingRows(checkout),
      { name: "plain with a timer", call: () => withTimer(wait) },
    ].map(sequential),
    [],
  );
}

/**
 * Runs last, because options of many shapes make every later call about 50 ns slower.
 * @param {Checkout} checkout
 */
async function manyLiterals(checkout) {
  const ours = literalRows(checkout);
  await section(
    "(f) retry only, options of many shapes and values",
    [plain, ...ours].map(sequential),
    ours.map(({ name }) => ({ of: name, ratio: 8 })),
  );
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

/**
 * Compares each row of this checkout with the same row of the other one.
 * @param {string} letter
 * @param {(checkout: Checkout) => readonly Peer[]} rowsOf
 * @param {Checkout} before
 * @param {Checkout} after
 */
async function againstOther(letter, rowsOf, before, after) {
  const measured = letter === "d" ? sequentialFailures : sequential;
  const newRows = rowsOf(after);
  for (const [index, row] of rowsOf(before).entries()) {
    const newRow = newRows[index] ?? row;
    await section(
      `(${letter}) ${row.name}`,
      [measured({ ...row, name: "before" }), measured({ ...newRow, name: "after" })],
      [{ of: "after", ratio: MAX_RATIO }],
    );
  }
}

const sections = {
  a: { run: retryOnly, rowsOf: retryRows },
  b: { run: breakerOnly, rowsOf: breakerRows },
  c: { run: wholeStack, rowsOf: stackRows },
  d: { run: everyCallFails, rowsOf: failingRows },
  e: { run: acrossTurns, rowsOf: waitingRows },
  f: { run: manyLiterals, rowsOf: literalRows },
};

/** `--only=a,d` runs only these sections. */
const only = process.argv.find((word) => word.startsWith("--only="))?.slice("--only=".length);
const ours = await loadCheckout(fileURLToPath(new URL("..", import.meta.url)));
const other = otherPath === undefined ? undefined : await loadCheckout(otherPath);
for (const [letter, { run, rowsOf }] of Object.entries(sections)) {
  if (only !== undefined && !only.includes(letter)) continue;
  if (other === undefined) await run(ours);
  else await againstOther(letter, rowsOf, other, ours);
}
// Peers leave timers running.
process.exit();
