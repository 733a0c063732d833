/** Runs the conformance suite on the memory store, and checks its bound. */
import { virtualClock } from "@redrive/core";
import { expect, test } from "vitest";
import { idempotencyStoreConformance } from "./conformance.testing.ts";
import { memoryStore } from "./memory-store.ts";

idempotencyStoreConformance("memory", async (clock) => ({ store: memoryStore({ clock }) }));

const claim = { fingerprint: "f", owner: "a", leaseMs: 10, retentionMs: 10 };

test("a full store refuses new keys, and takes them again when old ones have expired", async () => {
  const clock = virtualClock();
  const store = memoryStore({ clock, maxKeys: 2 });
  await store.claim("a", claim);
  await store.claim("b", claim);
  await expect(store.claim("c", claim)).rejects.toMatchObject({
    code: "STORE_FULL",
    message: "the memory store is full: it has 2 keys, and maxKeys is 2",
  });
  expect(await store.claim("b", claim)).toMatchObject({ kind: "running" });
  await clock.advance(20);
  expect(await store.claim("c", claim)).toMatchObject({ kind: "claimed" });
});

test.each([0, -1, Number.NaN, 10_000_001])("rejects maxKeys %d", (maxKeys) => {
  expect(() => memoryStore({ maxKeys })).toThrow(/maxKeys must be 1 to 10000000/);
});
