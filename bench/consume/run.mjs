/**
 * Run: measures how fast the messages of a full queue are handled, by a consumer and by the plain loop in
 * turns, and compares each pair. The handler does nothing but end later in the same turn, as one does that
 * finds its answer in a cache: what is left is the cost of the loop.
 */
import { printVerdicts } from "../bars.mjs";
import { median, setting } from "../service-parts.mjs";
import { startRabbitPlace } from "./rabbitmq.mjs";
import { startRedisPlace } from "./redis-streams.mjs";

const MESSAGES = setting("BENCH_MESSAGES", 20_000);
const ROUNDS = setting("BENCH_ROUNDS", 7);

/** Handlers that run at once, in both loops. */
const CONCURRENCY = 100;

/**
 * A broker. `fill` adds messages to a new queue and returns its name; a loop handles all of them.
 * @typedef {object} Place
 * @property {(count: number) => Promise<string>} fill
 * @property {Loop} plain
 * @property {Loop} consumer
 * @property {() => Promise<unknown>} stop
 */

/** @typedef {(queue: string, concurrency: number, handle: () => Promise<void>) => Promise<{ stop(): Promise<unknown> }>} Loop */

/** Messages a second. @param {Place} place @param {Loop} loop */
async function rate(place, loop) {
  const queue = await place.fill(MESSAGES);
  let handled = 0;
  /** @type {() => void} */
  let finish = () => {};
  const finished = new Promise((resolve) => {
    finish = () => resolve(undefined);
  });
  const startMs = performance.now();
  const running = await loop(queue, CONCURRENCY, async () => {
    await undefined;
    if (++handled === MESSAGES) finish();
  });
  await finished;
  const seconds = (performance.now() - startMs) / 1000;
  await running.stop();
  return MESSAGES / seconds;
}

/** @param {string} name @param {Place} place */
async function compareLoops(name, place) {
  await rate(place, place.plain);
  await rate(place, place.consumer);
  /** @type {{ plain: number, consumer: number }[]} */
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) {
    const order = /** @type {const} */ (["plain", "consumer"]);
    const found = { plain: 0, consumer: 0 };
    for (const which of round % 2 === 0 ? order : order.toReversed()) {
      found[which] = await rate(place, place[which]);
    }
    rounds.push(found);
  }
  await place.stop();
  const share = median(rounds.map(({ plain, consumer }) => consumer / plain));
  const plain = Math.round(median(rounds.map((found) => found.plain)));
  const consumer = Math.round(median(rounds.map((found) => found.consumer)));
  return {
    bar: `${name}: at least 1.00 x the plain loop (${plain} messages a second; the consumer: ${consumer})`,
    got: share.toFixed(2),
    ok: share >= 1,
  };
}

const verdicts = [
  await compareLoops("Redis Streams", await startRedisPlace()),
  await compareLoops("RabbitMQ", await startRabbitPlace()),
];
printVerdicts("consume", verdicts);
