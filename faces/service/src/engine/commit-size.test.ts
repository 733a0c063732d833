/** Tests how many items a commit has. */
import { describe, expect, it } from "vitest";
import type { Batch } from "../model/batch.ts";
import { setup } from "./engine.testing.ts";

const FAR_MS = 3_600_000;

/** The number of creates of each commit, if 300 tasks are created at once. */
async function sizesOfCommits(isEmbedded: boolean): Promise<readonly number[]> {
  const { clock, store, enqueue } = await setup();
  const { commit } = store;
  const sizes: number[] = [];
  Object.assign(store, {
    exclusive: isEmbedded,
    commit(batch: Batch) {
      if (batch.creates.length > 0) sizes.push(batch.creates.length);
      return commit.call(store, batch);
    },
  });
  const scheduledAt = clock.now() + FAR_MS;
  const created = Array.from({ length: 300 }, () => enqueue({ scheduledAt }).created);
  await clock.advance(100);
  await Promise.all(created);
  return sizes;
}

describe("a commit", () => {
  it("has up to 256 items in a shared store", async () => {
    expect(await sizesOfCommits(false)).toEqual([256, 44]);
  });

  it("has up to 128 in an embedded store, which writes them on the main thread", async () => {
    expect(await sizesOfCommits(true)).toEqual([128, 128, 44]);
  });
});
