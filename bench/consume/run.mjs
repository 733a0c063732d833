/**
 * Run: measures how fast the messages of a full queue are handled, and how much processor time this takes,
 * by a consumer and by plain loops of the broker's client in turns. Each round compares its own
 * measurements, because the machine may be slower in the next one. The handler does nothing but end later
 * in the same turn, as one does that finds its answer in a cache: what is left is the cost of the loop.
 */
import { findProgram } from "../../tools/setup/command.mjs";
import { printVerdicts } from "../bars.mjs";
import { median, setting } from "../service-parts.mjs";
import { startRabbitPlace } from "./rabbitmq.mjs";
import { startRedisPlace } from "./redis-streams.mjs";

const MESSAGES = setting("BENCH_MESSAGES", 20_000);
const ROUNDS = setting("BENCH_ROUNDS", 11);

/** Handlers that run at once, in all loops. */
const CONCURRENCY = 100;

/** The loop that is measured. All others are loops of the client. */
const OWN = "redrive/consume";

/**
 * A broker. `fill` adds messages to a new queue and returns its name; a loop handles all of them.
 * @typedef {object} Place
 * @property {(count: number) => Promise<string>} fill
 * @property {Readonly<Record<string, Loop>>} loops one of them is `redrive/consume`
 * @property {() => Promise<unknown>} stop
 */

/** @typedef {(queue: string, concurrency: number, handle: () => Promise<void>) => Promise<{ stop(): Promise<unknown> }>} Loop */

/**
 * Per message, in microseconds: by the clock, and of the processor.
 * @typedef {{ readonly wallUs: number, readonly cpuUs: number }} Cost
 */

/** @param {Place} place @param {Loop} loop @returns {Promise<Cost>} */
async function cost(place, loop) {
  const queue = await place.fill(MESSAGES);
  let handled = 0;
  /** @type {() => void} */
  let finish = () => {};
  const finished = new Promise((resolve) => {
    finish = () => resolve(undefined);
  });
  globalThis.gc?.();
  const startMs = performance.now();
  const started = process.cpuUsage();
  const running = await loop(queue, CONCURRENCY, async () => {
    await undefined;
    if (++handled === MESSAGES) finish();
  });
  await finished;
  const wallUs = (performance.now() - startMs) * 1000;
  const { user, system } = process.cpuUsage(started);
  await running.stop();
  return { wallUs: wallUs / MESSAGES, cpuUs: (user + system) / MESSAGES };
}

/** @param {string} name @param {Place} place */
async function compareLoops(name, place) {
  const names = Object.keys(place.loops);
  const measure = (/** @type {string} */ which) =>
    cost(place, /** @type {Loop} */ (place.loops[which]));
  for (const which of names) await measure(which);
  /** @type {Record<string, Cost>[]} */
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) {
    /** @type {Record<string, Cost>} */
    const found = {};
    for (const which of round % 2 === 0 ? names : names.toReversed())
      found[which] = await measure(which);
    rounds.push(found);
  }
  await place.stop();
  const plain = names.filter((which) => which !== OWN);
  print(name, names, rounds);
  return plain.map((which) => verdictOf(`${name}, beside ${which}`, which, rounds));
}

/** @param {Record<string, Cost>[]} rounds @param {string} which @param {keyof Cost} part */
function medianOf(rounds, which, part) {
  return median(rounds.map((round) => round[which]?.[part] ?? Number.NaN));
}

/** How many times as much the consumer costs, in a round. @param {Record<string, Cost>[]} rounds @param {string} which @param {keyof Cost} part */
function ratioTo(rounds, which, part) {
  return median(
    rounds.map(
      (round) => (round[OWN]?.[part] ?? Number.NaN) / (round[which]?.[part] ?? Number.NaN),
    ),
  );
}

/** @param {string} title @param {string} which @param {Record<string, Cost>[]} rounds */
function verdictOf(title, which, rounds) {
  const rate = 1 / ratioTo(rounds, which, "wallUs");
  return { bar: `${title}: at least 1.00 x the rate`, got: rate.toFixed(2), ok: rate >= 1 };
}

/** @param {string} title @param {readonly string[]} names @param {Record<string, Cost>[]} rounds */
function print(title, names, rounds) {
  if (process.argv.includes("--json")) return;
  process.stdout.write(`${title}: ${MESSAGES} messages, ${ROUNDS} rounds, medians\n`);
  for (const which of names) {
    const rate = Math.round(1e6 / medianOf(rounds, which, "wallUs"));
    const cpu = medianOf(rounds, which, "cpuUs").toFixed(1);
    const beside = ratioTo(rounds, which, "cpuUs").toFixed(2);
    const compared = which === OWN ? "" : `; the consumer needs ${beside} times as much`;
    process.stdout.write(
      `  ${which.padEnd(30)} ${String(rate).padStart(7)} a second, ${cpu} us of the processor each${compared}\n`,
    );
  }
}

const wanted = process.argv.slice(2).filter((arg) => !arg.startsWith("-"));
const isWanted = (/** @type {string} */ name) => wanted.length === 0 || wanted.includes(name);
const verdicts = [];
if (isWanted("redis")) {
  verdicts.push(...(await compareLoops("Redis Streams", await startRedisPlace())));
}
if (isWanted("rabbitmq")) {
  if (findProgram(["rabbitmq-server"]) === undefined) {
    process.stderr.write("RabbitMQ is left out: rabbitmq-server is not installed\n");
  } else verdicts.push(...(await compareLoops("RabbitMQ", await startRabbitPlace())));
}
printVerdicts("consume", verdicts);
