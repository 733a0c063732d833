/** Tests of how many items a commit takes, and when a second one may start. */
import { expect, it } from "vitest";
import { pinnedTask } from "../../stores/store.testing.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import { CommitOverlap } from "./commit-overlap.ts";
import { CommitQueue } from "./commit-queue.ts";
import { RunningCommits } from "./running-commits.ts";

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
