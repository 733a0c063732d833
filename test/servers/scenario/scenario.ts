/**
 * Scenario: a consumer under traffic in virtual time, some of whose messages always fail, or whose
 * dependency is down or whose program is broken for a while. It counts what an operator would look at:
 * how many good messages are handled, what is left, and what becomes a dead letter.
 */
import type { ConsumeOptions } from "redrive/consume";
import { seededRandom } from "redrive/testing";
import type { Broker, Library, OpenBroker } from "./brokers.ts";
import { type ScenarioClock, scenarioClock } from "./clock.ts";

export interface ScenarioOptions {
  readonly minutes: number;
  /** Messages of each hundred that always fail. Default: 0. */
  readonly failing?: number;
  /** What they fail with. Default: `error`, a response 500. A limit takes `busy`, a 503, for overload. */
  readonly failure?: "error" | "busy" | "mistake";
  /** How long the handler of a message takes. It never reads its signal. Default: `HANDLER_MS`. */
  readonly handlerMs?: (number: number) => number;
  /** Messages that are published at the start. Default: 0. */
  readonly burst?: number;
  /** Messages that are published per second. Default: 100. */
  readonly perSecond?: number;
  /** Default: 1. */
  readonly processes?: number;
  /** All attempts fail in this time: the dependency is down, or the program has a mistake. */
  readonly outage?: { readonly fromMs: number; readonly toMs: number; readonly failure?: Failure };
  /** The options of each process's consumer. */
  readonly options?: (place: {
    readonly clock: ScenarioClock;
    readonly library: Library;
  }) => ConsumeOptions;
  readonly seed?: number;
}

type Failure = NonNullable<ScenarioOptions["failure"]>;

export interface Report {
  /** Good messages that were handled, by second. */
  readonly good: Uint32Array;
  /** Attempts, by second. */
  readonly attempts: Uint32Array;
  readonly published: number;
  readonly publishedGood: number;
  /** Good messages that were not handled by the end. */
  readonly left: number;
  /** Messages that were handled more than once. */
  readonly repeated: number;
  /** Attempts that began while another one of their message was running. */
  readonly overlapping: number;
  /** Dead letters by whether their message always fails. */
  readonly deadGood: number;
  readonly deadBad: number;
  /** Attempts whose number was higher than that of the runs of their message. */
  readonly overcounted: number;
  /** When all good messages were handled, in ms from the start; Infinity: never. */
  readonly doneMs: number;
  /** Events of the consumers by type, deferrals by reason. */
  readonly events: Readonly<Record<string, number>>;
}

const START_AT = 1_700_000_000_000;

/** A handler takes this long, so ten slots have a capacity of 500 messages per second. */
export const HANDLER_MS = 20;
export const CONCURRENCY = 10;
export const CAPACITY: number = (CONCURRENCY * 1000) / HANDLER_MS;

/** Spreads the failing messages evenly, in a fixed order. */
function isBad(number: number, failing: number): boolean {
  return (number * 37) % 100 < failing;
}

function failureOf(kind: Failure): Error {
  if (kind === "mistake") return new TypeError("order.lines is not iterable");
  if (kind === "error") return Object.assign(new Error("internal error"), { status: 500 });
  return Object.assign(new Error("the dependency is down"), { status: 503 });
}

/** What happened to the messages, by their number. */
class Ledger {
  readonly good: Uint32Array;
  readonly attempts: Uint32Array;
  readonly #scenario: ScenarioOptions;
  readonly #clock: ScenarioClock;
  readonly #runs = new Map<number, number>();
  readonly #done = new Set<number>();
  readonly #running = new Set<number>();
  repeated = 0;
  overlapping = 0;
  overcounted = 0;
  doneMs: number = Number.POSITIVE_INFINITY;
  published = 0;
  publishedGood = 0;

  constructor(scenario: ScenarioOptions, clock: ScenarioClock) {
    this.#scenario = scenario;
    this.#clock = clock;
    this.good = new Uint32Array(scenario.minutes * 60 + 1);
    this.attempts = new Uint32Array(scenario.minutes * 60 + 1);
  }

  get left(): number {
    return this.publishedGood - this.#done.size;
  }

  publish(broker: Broker): void {
    if (!isBad(this.published, this.#scenario.failing ?? 0)) this.publishedGood++;
    broker.publish(`m${this.published++}`);
  }

  #second(): number {
    return Math.floor((this.#clock.now() - START_AT) / 1000);
  }

  readonly handler = async (
    { id }: { readonly id: string },
    { attempt }: { readonly attempt: number },
  ): Promise<void> => {
    const { failing = 0, failure = "error", outage, handlerMs } = this.#scenario;
    const atMs = this.#clock.now() - START_AT;
    const number = Number(id.slice(1));
    this.attempts[this.#second()] = (this.attempts[this.#second()] ?? 0) + 1;
    const runs = this.#runs.get(number) ?? 0;
    if (attempt > runs + 1) this.overcounted++;
    this.#runs.set(number, runs + 1);
    if (this.#running.has(number)) this.overlapping++;
    this.#running.add(number);
    await this.#clock.sleep(handlerMs?.(number) ?? HANDLER_MS);
    this.#running.delete(number);
    const isOut = outage !== undefined && atMs >= outage.fromMs && atMs < outage.toMs;
    if (isOut) throw failureOf(outage.failure ?? "busy");
    if (isBad(number, failing)) throw failureOf(failure);
    this.#finish(number);
  };

  #finish(number: number): void {
    if (this.#done.has(number)) this.repeated++;
    this.#done.add(number);
    this.good[this.#second()] = (this.good[this.#second()] ?? 0) + 1;
    this.doneMs = this.left === 0 ? this.#clock.now() - START_AT : Number.POSITIVE_INFINITY;
  }
}

export async function runScenario(
  library: Library,
  open: OpenBroker,
  scenario: ScenarioOptions,
): Promise<Report> {
  const { minutes, failing = 0, processes = 1, seed = 1, burst = 0, perSecond = 100 } = scenario;
  const clock = scenarioClock(START_AT);
  const random = seededRandom(seed);
  const broker = open({ library, clock, random });
  const ledger = new Ledger(scenario, clock);
  const events: Record<string, number> = {};
  const onEvent: ConsumeOptions["onEvent"] = (event) => {
    const name = event.type === "defer" ? `defer ${event.by}` : event.type;
    events[name] = (events[name] ?? 0) + 1;
  };
  for (let process = 0; process < processes; process++) {
    const given = scenario.options?.({ clock, library }) ?? {};
    const wiring = given.destination === undefined ? { clock } : {};
    const own = { random: random.fork(`process ${process}`), concurrency: CONCURRENCY, onEvent };
    const consumer = library.consume(ledger.handler, { ...own, ...wiring, ...given });
    await started(clock, broker.start(consumer));
  }
  for (let n = 0; n < burst; n++) ledger.publish(broker);
  const endAt = START_AT + minutes * 60_000;
  if (perSecond > 0) publishSteadily(clock, 1000 / perSecond, endAt, () => ledger.publish(broker));
  await clock.runUntil(endAt);
  const dead = broker.deadLetters().map((id) => Number(id.slice(1)));
  const deadBad = dead.filter((number) => isBad(number, failing)).length;
  const { good, attempts, published, publishedGood, left, doneMs } = ledger;
  const { repeated, overlapping, overcounted } = ledger;
  const counts = { published, publishedGood, left, repeated, overlapping, overcounted, doneMs };
  return { good, attempts, ...counts, deadGood: dead.length - deadBad, deadBad, events };
}

async function started<T>(clock: ScenarioClock, starting: Promise<T>): Promise<T> {
  let isStarted = false;
  const mark = () => {
    isStarted = true;
  };
  starting.then(mark, mark);
  await clock.runUntilHolds(() => isStarted, clock.now() + 60_000);
  return await starting;
}

function publishSteadily(
  clock: ScenarioClock,
  everyMs: number,
  endAt: number,
  publish: () => void,
): void {
  const startAt = clock.now();
  let published = 0;
  const next = () => {
    publish();
    const nextAt = startAt + ++published * everyMs;
    if (nextAt < endAt) clock.alarm(nextAt - clock.now(), next);
  };
  next();
}

/** Handled per second, over some seconds. */
export function rate(counts: Uint32Array, fromSecond: number, toSecond: number): number {
  let sum = 0;
  for (let second = fromSecond; second < toSecond; second++) sum += counts[second] ?? 0;
  return sum / (toSecond - fromSecond);
}

/** The rates of the minutes. */
export function minutesOf(counts: Uint32Array): number[] {
  const minutes = Math.floor((counts.length - 1) / 60);
  return Array.from({ length: minutes }, (_, minute) =>
    rate(counts, minute * 60, minute * 60 + 60),
  );
}
