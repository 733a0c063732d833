/**
 * Contention: all clients write one row under optimistic concurrency control, as in Brooker's model
 * of 2015 ("Exponential Backoff And Jitter"). A client reads the version and writes if it has not
 * changed; otherwise it waits and starts again. Reads and writes take no time at the row itself.
 */
import { type Draws, drawsOf } from "../engine/draws.ts";
import {
  type DurationDocument,
  type DurationSampler,
  durationSampler,
} from "../engine/durations.ts";
import { createHeap, type Heap, popEvent, pushEvent } from "../engine/heap.ts";
import type { Trace } from "../engine/run.ts";
import { DEFAULT_HORIZON_MS } from "../scenario/scenario.ts";
import type { ContentionDocument } from "../scenario/scenario-document.ts";
import { nextWait, policyOf, stopReason, waitsOf } from "../schedule/waits.ts";
import {
  countArrivals,
  countAt,
  countLost,
  countSucceeded,
  createTally,
  fairnessOfDurations,
  OFFERED,
  type Tally,
  type WorldRun,
} from "./tally.ts";

/** The wait after attempt n (from 1), or a negative number to give up. */
export type ContentionWait = (
  attempt: number,
  client: number,
  draws: Draws,
  elapsedMs: number,
) => number;

interface ContentionOptions {
  readonly seed: number | string;
  readonly trace?: Trace | undefined;
  /** The formula of a published model, instead of core's policy. */
  readonly wait?: ContentionWait;
}

const BROOKER_HOP: DurationDocument = { kind: "NORMAL", meanMs: 10, sdMs: 2 };

/**
 * The only event: a client's write arrives. Reads and responses change nothing that other clients
 * see, and the time of the last write shows whether the row changed since a read. This needs a
 * quarter of the model's events and gives the same runs.
 */
const WRITE = 0;

interface Row {
  readonly heap: Heap;
  readonly tally: Tally;
  readonly hop: DurationSampler;
  readonly draws: Draws;
  readonly jitter: Draws;
  readonly wait: ContentionWait;
  /** By client: when its read arrived, and the number of its next attempt. */
  readonly readAt: Float64Array;
  readonly attempts: Int32Array;
  /** When the row was written last. */
  changedAt: number;
}

export function runContention(document: ContentionDocument, options: ContentionOptions): WorldRun {
  const { clientCount = 100, horizonMs = DEFAULT_HORIZON_MS, windowMs = 100 } = document;
  const { seed, trace } = options;
  const row: Row = {
    heap: createHeap(clientCount),
    tally: createTally({ horizonMs, windowMs }),
    hop: durationSampler(document.hop ?? BROOKER_HOP),
    draws: drawsOf(seed, "wire"),
    jitter: drawsOf(seed, "jitter"),
    wait: options.wait ?? policyWait(document),
    readAt: new Float64Array(clientCount),
    attempts: new Int32Array(clientCount).fill(1),
    changedAt: -1,
  };
  row.tally.calls = clientCount;
  for (let client = 0; client < clientCount; client++) {
    countAt(row.tally, OFFERED, 0);
    read(row, row.hop(row.draws), client);
  }
  while (popEvent(row.heap)) {
    const { at, subject } = row.heap;
    trace?.add(at, row.attempts[subject] as number, subject);
    write(row, at, subject);
  }
  const { tally } = row;
  return {
    engine: "contention",
    tally,
    fairness: fairnessOfDurations(tally),
    triggerStartMs: 0,
    triggerEndMs: 0,
  };
}

function policyWait(document: ContentionDocument): ContentionWait {
  const waits = waitsOf(policyOf(document.policy));
  const previousMs = new Float64Array(document.clientCount ?? 100);
  return (attempt, client, draws, elapsedMs) => {
    const draw = waits.compiled.draws ? draws.next() : 0;
    const waitMs = nextWait(waits, attempt, elapsedMs, previousMs[client] as number, draw);
    previousMs[client] = Math.max(0, waitMs);
    return waitMs;
  };
}

/** A client's read arrives at `at`. The response goes back, and the write follows. */
function read(row: Row, at: number, client: number): void {
  row.readAt[client] = at;
  pushEvent(row.heap, at + row.hop(row.draws) + row.hop(row.draws), WRITE, client);
}

/**
 * A write succeeds if no other write came after its read. The client learns the result one hop
 * later.
 */
function write(row: Row, now: number, client: number): void {
  const { tally } = row;
  tally.attempts++;
  countArrivals(tally, now, 1);
  const answerAt = now + row.hop(row.draws);
  tally.doneAtMs = Math.max(tally.doneAtMs, answerAt);
  if (row.changedAt <= (row.readAt[client] as number)) {
    row.changedAt = now;
    countSucceeded(tally, answerAt, answerAt);
    return;
  }
  const attempt = row.attempts[client] as number;
  row.attempts[client] = attempt + 1;
  const waitMs = row.wait(attempt, client, row.jitter, answerAt);
  if (waitMs < 0) {
    countLost(tally, stopReason(waitMs), answerAt);
    return;
  }
  tally.waitedMs += waitMs;
  read(row, answerAt + row.hop(row.draws) + waitMs, client);
}
