/**
 * Tests of running commits: results are applied in the order in which the commits started.
 * Tests of how many items a commit takes, and when a second one may start.
 */
import { PermitBatch, seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { type CommitResult, EMPTY_BATCH } from "../model/batch.ts";
import { pinnedTask } from "../stores/store.testing.ts";
import type { PendingCommit } from "./commit.ts";
import { CommitOverlap, CommitQueue, RunningCommits } from "./commit.ts";
import { DestinationRuntime } from "./destination-runtime.ts";
import { plannedClaim } from "./scheduler.ts";

const NONE = {
  creates: [],
  settles: [],
  cancels: [],
  retryNows: [],
  claims: [],
  wakeUps: [],
  permits: [],
  written: [],
};
const RESULT: CommitResult = {
  destinations: [],
  creates: [],
  settles: [],
  cancels: [],
  retryNows: [],
  claims: [],
};

function commitNamed(nodeId: string, parts: Partial<PendingCommit> = {}): PendingCommit {
  return { ...NONE, batch: { ...EMPTY_BATCH, now: 0, nodeId }, ...parts };
}

function setup() {
  const log: string[] = [];
  let recover: (() => void) | undefined;
  const running = new RunningCommits({
    succeed: (commit) => log.push(`${commit.batch.nodeId} succeeded`),
    fail(commit, error) {
      log.push(`${commit.batch.nodeId} failed`);
      if (error !== "refused") return undefined;
      return new Promise((resolve) => (recover = resolve));
    },
    resume: () => log.push("resumed"),
  });
  const start = (name: string, parts?: Partial<PendingCommit>) => {
    const result = deferred();
    running.start(commitNamed(name, parts), result.promise);
    return result;
  };
  return { log, running, start, recover: () => recover?.() };
}

function deferred() {
  let resolve: (result: CommitResult) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<CommitResult>((done, failed) => {
    resolve = done;
    reject = failed;
  });
  return { promise, resolve, reject };
}

/** Promises that are settled have called their listeners. */
const settled = () => new Promise(setImmediate);

describe("results", () => {
  it("are applied in the order of the commits, whichever arrives first", async () => {
    const { log, start, running } = setup();
    const [first, second, third] = [start("first"), start("second"), start("third")];
    second.resolve(RESULT);
    third.reject(new Error("lost"));
    await settled();
    expect([log, running.count]).toEqual([[], 3]);
    first.resolve(RESULT);
    await settled();
    expect(log).toEqual(["first succeeded", "second succeeded", "third failed"]);
    expect(running.count).toBe(0);
  });

  it("wait while the items of a refused commit are found", async () => {
    const { log, start, running, recover } = setup();
    start("first").reject("refused");
    start("second").resolve(RESULT);
    await settled();
    expect([log, running.count, running.mayOverlap]).toEqual([["first failed"], 2, false]);
    recover();
    await settled();
    expect(log).toEqual(["first failed", "resumed", "second succeeded"]);
    expect([running.count, running.mayOverlap]).toEqual([0, true]);
  });
});

describe("a running commit", () => {
  const key = { tenantId: "a", name: "a" };
  const destination = new DestinationRuntime(seededRandom("a"), key, 0, undefined);

  it("lets no other one start while it writes a row", async () => {
    const { running, start } = setup();
    const first = start("first", { written: [{ destination, wasOpen: false }] });
    expect(running.mayOverlap).toBe(false);
    first.resolve(RESULT);
    await settled();
    expect(running.mayOverlap).toBe(true);
  });

  it("is known to claim a suspect", () => {
    const { running, start } = setup();
    const claimOf = (lane: "first" | "suspect") =>
      plannedClaim(
        {
          lane: destination.lanes[lane],
          partitions: [0],
          permits: new PermitBatch(lane === "first" ? "first" : "retry"),
          arrivals: undefined,
          origin: undefined,
        },
        { ahead: 0, aheadMs: 0, isScarce: false, now: 0 },
      );
    start("first", { claims: [claimOf("first")] });
    expect(running.hasSuspect()).toBe(false);
    start("second", { claims: [claimOf("suspect")] });
    expect(running.hasSuspect()).toBe(true);
  });
});

const destination = {} as DestinationRuntime;

function overlapWith(waiting: number, exclusive = false) {
  const queue = new CommitQueue();
  for (let n = 0; n < waiting; n++) {
    const create = { task: pinnedTask(), fingerprint: null };
    queue.addCreate({ create, destination, done: () => {}, failed: () => {} });
  }
  const running = new RunningCommits({
    succeed: () => {},
    fail: () => undefined,
    resume: () => {},
  });
  return { queue, overlap: new CommitOverlap({ store: { exclusive }, queue }, running) };
}

it("two commits divide the items, if enough wait for two", () => {
  expect(overlapWith(255).overlap.itemsToTake()).toBe(255);
  expect(overlapWith(257).overlap.itemsToTake()).toBe(129);
});

it("if a row waits to be written, the commit takes all items, because no other one may run beside it", () => {
  const { queue, overlap } = overlapWith(500);
  queue.addChanged(destination);
  expect(overlap.itemsToTake()).toBe(500);
  queue.takeChanged();
  expect(overlap.itemsToTake()).toBe(250);
});

it("in an exclusive store, no commit is divided and none starts early", () => {
  const { overlap } = overlapWith(500, true);
  expect(overlap.itemsToTake()).toBe(500);
  expect(overlap.mayOverlap()).toBe(false);
  expect(overlap.isNextReady()).toBe(false);
});
