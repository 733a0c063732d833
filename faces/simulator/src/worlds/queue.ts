/**
 * Queue: messages wait for workers that may fail or crash, modeled on SQS (visibility timeout,
 * maximum receives) and Kafka (commit interval). It shows the cost of at-least-once delivery:
 * duplicate runs and dead letters.
 */
import { type Draws, drawsOf } from "../engine/draws.ts";
import { type DurationSampler, durationSampler, exponential } from "../engine/durations.ts";
import { createHeap, type Heap, isIdle, popEvent, pushEvent } from "../engine/heap.ts";
import { assertAtMost, isProgressDue, type RunObserver } from "../engine/run.ts";
import { DEFAULT_HORIZON_MS } from "../scenario/scenario.ts";
import type { QueueDocument } from "../scenario/scenario-document.ts";
import { nextWait, policyOf, type Waits, waitsOf } from "../schedule/waits.ts";
import {
  countArrivals,
  countAt,
  countLost,
  countSucceeded,
  createTally,
  OFFERED,
  type Tally,
  type WorldRun,
} from "./tally.ts";

/**
 * Events: a message arrives, a message becomes visible (again), a run ends, all workers commit, a
 * worker crashes.
 */
const ARRIVE = 0;
const VISIBLE = 1;
const DONE = 2;
const COMMIT = 3;
const CRASH = 4;

/** At about 200 bytes each. */
const MAX_MESSAGES = 5_000_000;

interface Message {
  readonly arrivedAt: number;
  readonly poison: boolean;
  receives: number;
  /** Its work is done, whether or not the queue knows. */
  done: boolean;
  /** The queue knows that it is done, or it is a dead letter. */
  settled: boolean;
  /** The newest receipt. The visibility timeout of an older receipt has no effect. */
  receipt: number;
  previousMs: number;
}

interface Worker {
  /** The message that it works on, or -1. */
  message: number;
  receipt: number;
  /** The number of its latest run, to recognize the end of a run that a crash interrupted. */
  run: number;
  /** Receipts of finished work that is not committed yet. */
  readonly uncommitted: number[];
}

interface QueueWorld {
  readonly options: Required<
    Omit<
      QueueDocument,
      "world" | "name" | "description" | "policy" | "work" | "workers" | "windowMs"
    >
  >;
  readonly work: DurationSampler;
  readonly waits: Waits | undefined;
  readonly heap: Heap;
  readonly tally: Tally;
  readonly draws: Draws;
  readonly jitter: Draws;
  readonly messages: Message[];
  readonly visible: number[];
  /** How many entries of `visible` have been received. Entries are not removed. */
  taken: number;
  readonly workers: readonly Worker[];
  now: number;
  duplicates: number;
  deadLetters: number;
}

export function runQueue(
  document: QueueDocument,
  seed: number | string,
  { trace, onProgress }: RunObserver = {},
): WorldRun {
  const world = createQueueWorld(document, seed);
  const { heap, options } = world;
  assertAtMost((options.ratePerSecond * options.horizonMs) / 1000, MAX_MESSAGES, "messages");
  pushEvent(heap, (1000 * exponential(world.draws)) / options.ratePerSecond, ARRIVE, 0);
  if (options.commitMs > 0) pushEvent(heap, options.commitMs, COMMIT, 0);
  if (options.crashesPerSecond > 0) scheduleCrash(world);
  for (let events = 0; popEvent(heap); events++) {
    world.now = heap.at;
    if (onProgress !== undefined && isProgressDue(events)) {
      onProgress(Math.min(1, world.now / options.horizonMs));
    }
    trace?.add(heap.at, heap.kind, heap.subject);
    HANDLERS[heap.kind]?.(world, heap.subject);
    assignMessages(world);
  }
  const { tally, duplicates, deadLetters } = world;
  return {
    engine: "queue",
    tally,
    fairness: 1,
    triggerStartMs: 0,
    triggerEndMs: 0,
    duplicates,
    deadLetters,
  };
}

function createQueueWorld(document: QueueDocument, seed: number | string): QueueWorld {
  const { workers = 4, horizonMs = DEFAULT_HORIZON_MS, windowMs = 100 } = document;
  return {
    options: {
      horizonMs,
      ratePerSecond: document.ratePerSecond ?? 10,
      visibilityMs: document.visibilityMs ?? 30_000,
      maxReceives: document.maxReceives ?? 5,
      poisonShare: document.poisonShare ?? 0,
      failureRate: document.failureRate ?? 0,
      crashesPerSecond: document.crashesPerSecond ?? 0,
      commitMs: document.commitMs ?? 0,
    },
    work: durationSampler(document.work ?? { kind: "EXPONENTIAL", meanMs: 100 }),
    waits: document.policy === undefined ? undefined : waitsOf(policyOf(document.policy)),
    heap: createHeap(),
    tally: createTally({ horizonMs, windowMs }),
    draws: drawsOf(seed, "queue"),
    jitter: drawsOf(seed, "jitter"),
    messages: [],
    visible: [],
    taken: 0,
    workers: Array.from({ length: workers }, () => ({
      message: -1,
      receipt: 0,
      run: 0,
      uncommitted: [],
    })),
    now: 0,
    duplicates: 0,
    deadLetters: 0,
  };
}

/** By kind of event. */
const HANDLERS: readonly ((world: QueueWorld, subject: number) => void)[] = [
  onArrive,
  onVisible,
  onRunDone,
  onCommit,
  onCrash,
];

function onArrive(world: QueueWorld): void {
  const { options, draws, messages, heap, tally, now } = world;
  const poison = draws.next() < options.poisonShare;
  messages.push({
    arrivedAt: now,
    poison,
    receives: 0,
    done: false,
    settled: false,
    receipt: 0,
    previousMs: 0,
  });
  world.visible.push(messages.length - 1);
  tally.calls++;
  countAt(tally, OFFERED, now);
  const at = now + (1000 * exponential(draws)) / options.ratePerSecond;
  if (at < options.horizonMs) pushEvent(heap, at, ARRIVE, 0);
}

/** Idle workers receive visible messages, except those that were settled meanwhile. */
function assignMessages(world: QueueWorld): void {
  const { workers, visible, messages } = world;
  for (let index = 0; index < workers.length && world.taken < visible.length; index++) {
    const worker = workers[index] as Worker;
    while (worker.message < 0 && world.taken < visible.length) {
      const number = visible[world.taken++] as number;
      if (!(messages[number] as Message).settled) receive(world, worker, index, number);
    }
  }
}

/** How many receipts of one message, and how many runs, the subject of an event can distinguish. */
const RECEIPTS = 1024;
const RUNS = 1_048_576;

function receiptKey(message: number, receipt: number): number {
  return message * RECEIPTS + (receipt % RECEIPTS);
}

function receive(world: QueueWorld, worker: Worker, index: number, number: number): void {
  const { options, heap, draws, now, tally } = world;
  const message = world.messages[number] as Message;
  message.receives++;
  message.receipt++;
  worker.message = number;
  worker.receipt = message.receipt;
  worker.run = ++tally.attempts % RUNS;
  countArrivals(tally, now, 1);
  pushEvent(heap, now + options.visibilityMs, VISIBLE, receiptKey(number, message.receipt));
  pushEvent(heap, now + world.work(draws), DONE, index * RUNS + worker.run);
}

/**
 * A receipt timed out or was lost, or a failed message has waited: the message becomes visible
 * again.
 */
function onVisible(world: QueueWorld, subject: number): void {
  const number = Math.floor(subject / RECEIPTS);
  const message = world.messages[number] as Message;
  if (message.settled || message.receipt % RECEIPTS !== subject % RECEIPTS) return;
  message.receipt++;
  if (message.receives >= world.options.maxReceives) bury(world, message);
  else world.visible.push(number);
}

/** Makes a message a dead letter. If its work was done but never committed, nothing is lost. */
function bury(world: QueueWorld, message: Message): void {
  message.settled = true;
  world.deadLetters++;
  if (!message.done) countLost(world.tally, "receives", world.now);
}

function onRunDone(world: QueueWorld, subject: number): void {
  const worker = world.workers[Math.floor(subject / RUNS)] as Worker;
  // A crash interrupted the run.
  if (worker.message < 0 || worker.run !== subject % RUNS) return;
  const number = worker.message;
  const message = world.messages[number] as Message;
  worker.message = -1;
  if (message.poison || world.draws.next() < world.options.failureRate) {
    onRunFailed(world, message, number, worker.receipt);
    return;
  }
  if (message.done) world.duplicates++;
  // A message that became a dead letter during its last run stays one, whatever the result of the
  // run.
  else if (!message.settled) finish(world, message);
  if (world.options.commitMs === 0) message.settled = true;
  else worker.uncommitted.push(receiptKey(number, worker.receipt));
}

function finish(world: QueueWorld, message: Message): void {
  const { tally, now } = world;
  message.done = true;
  countSucceeded(tally, now, now - message.arrivedAt);
}

/** A failed message waits as the policy says; without a policy it becomes visible at once. */
function onRunFailed(world: QueueWorld, message: Message, number: number, receipt: number): void {
  if (message.settled || message.receipt !== receipt) return;
  message.receipt++;
  const isLast = message.receives >= world.options.maxReceives;
  const waitMs = isLast ? -1 : waitFor(world, message);
  if (waitMs < 0) {
    bury(world, message);
    return;
  }
  world.tally.waitedMs += waitMs;
  pushEvent(world.heap, world.now + waitMs, VISIBLE, receiptKey(number, message.receipt));
}

function waitFor({ waits, jitter, now }: QueueWorld, message: Message): number {
  if (waits === undefined) return 0;
  const draw = waits.compiled.draws ? jitter.next() : 0;
  const elapsedMs = now - message.arrivedAt;
  message.previousMs = nextWait(waits, message.receives, elapsedMs, message.previousMs, draw);
  return message.previousMs;
}

function onCommit(world: QueueWorld): void {
  for (const worker of world.workers) {
    for (const done of worker.uncommitted.splice(0)) {
      (world.messages[Math.floor(done / RECEIPTS)] as Message).settled = true;
    }
  }
  const { horizonMs, commitMs } = world.options;
  if (world.now < horizonMs || !isIdle(world.heap))
    pushEvent(world.heap, world.now + commitMs, COMMIT, 0);
}

function scheduleCrash(world: QueueWorld): void {
  const at = world.now + (1000 * exponential(world.draws)) / world.options.crashesPerSecond;
  if (at < world.options.horizonMs) pushEvent(world.heap, at, CRASH, 0);
}

/** A worker loses its run and its uncommitted work, and continues with the next message. */
function onCrash(world: QueueWorld): void {
  const { workers, draws } = world;
  const worker = workers[Math.floor(draws.next() * workers.length)] as Worker;
  worker.message = -1;
  for (const done of worker.uncommitted.splice(0)) onVisible(world, done);
  scheduleCrash(world);
}
