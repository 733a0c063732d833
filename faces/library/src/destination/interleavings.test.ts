/**
 * A model of everything at once: calls of every kind come, end, time out, are hedged, renewed,
 * refused and aborted in random order, by listeners and classifiers too. Whatever the order, each
 * ends once, nothing leaves after its end, and nothing is left behind.
 */
import { getEventListeners } from "node:events";
import { type Random, seededRandom, type VirtualClock, virtualClock } from "@redrive/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { AttemptContext, Operation, RunOptions } from "../call/options.ts";
import { statusError } from "../call/world.testing.ts";
import { type Destination, type DestinationInput, destination } from "./destination.ts";

const TOKENS = 100_000;
const COST = 10;
const EVENTS = ["attempt-failed", "retry", "hedge", "breaker", "reauthenticate"];

/** What is counted beside the destination, to be compared with what it counted itself. */
class Model {
  readonly clock: VirtualClock = virtualClock(1_700_000_000_000);
  readonly problems: string[] = [];
  readonly signals: AbortSignal[] = [];
  readonly api: Destination;
  readonly slots: number;
  running = 0;
  begun = 0;
  started = 0;
  ended = 0;
  private readonly random: Random;

  constructor(seed: number) {
    this.random = seededRandom(seed);
    this.slots = 1 + this.below(4);
    this.api = destination("api", this.input(seed));
  }

  below(most: number): number {
    return Math.floor(this.random.next() * most);
  }

  maybe<T>(share: number, given: T): T | undefined {
    return this.random.next() < share ? given : undefined;
  }

  private input(seed: number): DestinationInput {
    const max = this.slots;
    const queue = this.below(6);
    const maxRetries = this.below(max + 1);
    const reauthenticate = () => this.clock.sleep(this.below(50));
    const given = {
      clock: this.clock,
      random: seededRandom(seed),
      policy: {
        maxAttempts: 1 + this.below(4),
        initialDelayMs: this.below(200),
        attemptTimeoutMs: 100 + this.below(400),
        totalBudgetMs: 1000 + this.below(5000),
      },
      retryBudget: { kind: "TOKENS", maxTokens: TOKENS, costPerRetry: COST, refillPerSuccess: 0 },
      concurrency: { algorithm: "FIXED", max, queue, maxRetries },
      breaker: this.maybe(0.6, { minCalls: 4, openMs: 50 + this.below(400) }),
      rate: this.maybe(0.2, { perSecond: 20, burst: 2 }),
      hedge: this.maybe(0.5, { after: 20 + this.below(100), max: 1 + this.below(2) }),
      reauthenticate: this.maybe(0.3, reauthenticate),
    };
    const said = Object.entries(given).filter(([, value]) => value !== undefined);
    return Object.fromEntries(said) as DestinationInput;
  }

  /** One attempt: takes its place among those that run, until it ends or is cut off. */
  private attempt(context: AttemptContext, controller: AbortController, isOver: () => boolean) {
    const { clock } = this;
    this.begun++;
    this.running++;
    if (isOver()) this.problems.push("an attempt after the end");
    if (controller.signal.aborted) this.problems.push("an attempt after an abort");
    if (this.running > this.slots) this.problems.push("more attempts than slots");
    let hasLeft = false;
    const leave = () => {
      if (!hasLeft) this.running--;
      hasLeft = true;
    };
    context.signal.addEventListener("abort", leave);
    const later = async (end: () => unknown) => {
      await clock.sleep(this.below(300));
      leave();
      return end();
    };
    const fail = (error: unknown) => () => Promise.reject(error);
    const ways: readonly (() => unknown)[] = [
      () => leave(),
      () => {
        leave();
        throw statusError(503);
      },
      () => later(() => "late"),
      () => later(fail(statusError(503))),
      () => later(fail(statusError(401))),
      () => later(fail(statusError(400))),
      () => later(fail(undefined)),
      () => new Promise(() => undefined),
      () => {
        controller.abort(new Error("by the function"));
        return later(() => "too late");
      },
    ];
    return ways[this.below(ways.length)]?.();
  }

  private options(controller: AbortController, heard: (type: string) => void): RunOptions {
    const abortAt = this.maybe(0.2, EVENTS[this.below(EVENTS.length)]);
    const abort = () => controller.abort(new Error("by who was told"));
    const given = {
      signal: controller.signal,
      onEvent: ({ type }: { readonly type: string }) => {
        heard(type);
        if (type === abortAt) abort();
      },
      classify: this.maybe(0.1, () => void abort()),
      patience: this.maybe(0.2, "wait"),
      key: this.maybe(0.3, "shard"),
      once: this.maybe(0.1, true),
      keepLast: this.maybe(0.2, true),
      method: this.maybe(0.2, "POST"),
      deadlineAt: this.maybe(0.1, this.clock.now() + this.below(800)),
      fallback: this.maybe(0.2, () => this.clock.sleep(this.below(100))),
    };
    return given as RunOptions;
  }

  call(): void {
    const controller = new AbortController();
    this.signals.push(controller.signal);
    let ends = 0;
    let isOver = false;
    const heard = (type: string) => {
      if (type === "success" || type === "give-up") ends++;
    };
    const fn: Operation<unknown> = (context) => this.attempt(context, controller, () => isOver);
    const ended = () => {
      isOver = true;
      this.ended++;
      if (ends !== 1) this.problems.push(`${ends} ends of one call`);
    };
    this.started++;
    this.api.run(fn, this.options(controller, heard)).then(ended, ended);
    if (this.below(3) === 0) {
      const abort = () => controller.abort(new Error("by its caller"));
      this.clock.alarm(this.below(1500), abort);
    }
  }
}

test("whatever comes in whatever order, each call ends once and leaves nothing behind", async () => {
  const property = fc.asyncProperty(fc.integer(), async (seed) => {
    const model = new Model(seed);
    const { api, clock, problems } = model;
    for (let step = 0; step < 20; step++) {
      for (let n = model.below(4); n >= 0; n--) model.call();
      await clock.advance(model.below(150));
    }
    await clock.advance(100_000);
    expect(problems).toEqual([]);
    expect(model.ended).toBe(model.started);
    expect(model.running).toBe(0);
    expect(clock.pending()).toBe(0);
    const listeners = model.signals.flatMap((signal) => getEventListeners(signal, "abort"));
    expect(listeners).toEqual([]);
    const { firsts, retries, hedges, inFlight } = api.stats();
    expect(inFlight).toBe(0);
    // A listener that aborts when it is told of a copy ends it before it leaves.
    expect(firsts + retries + hedges).toBeGreaterThanOrEqual(model.begun);
    const { guards, keys } = api.save();
    for (const breaker of [guards.breaker, ...Object.values(keys)]) {
      expect(breaker?.probes ?? 0).toBe(0);
    }
    const spent = TOKENS - (guards.retryBudget?.tokens ?? 0);
    expect(spent).toBeLessThanOrEqual(COST * (retries + hedges));
  });
  await fc.assert(property, { numRuns: 25 });
});
