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
    message:
      "the memory store is full: it has 2 keys and 0 bytes; maxKeys is 2 and maxBytes 268435456",
  });
  expect(await store.claim("b", claim)).toMatchObject({ kind: "running" });
  await clock.advance(20);
  expect(await store.claim("c", claim)).toMatchObject({ kind: "claimed" });
});

test("a store with too many bytes refuses new keys, still takes the results of those it has, and counts what is removed", async () => {
  const clock = virtualClock();
  const store = memoryStore({ clock, maxBytes: 100 });
  const result = { result: new Uint8Array(60), retentionMs: 10 };
  const claimed = { kind: "claimed" };
  for (const key of ["a", "b", "c"]) expect(await store.claim(key, claim)).toMatchObject(claimed);
  for (const key of ["a", "b"]) expect(await store.settle(key, "a", result)).toBe(true);
  await expect(store.claim("d", claim)).rejects.toMatchObject({ code: "STORE_FULL" });
  expect(await store.settle("c", "a", result)).toBe(true);
  expect(await store.settle("c", "a", { ...result, result: new Uint8Array(1) })).toBe(true);
  await clock.advance(20);
  for (let times = 0; times < 3; times++) {
    // An expired key that is claimed again gives its bytes back, like one that is swept.
    expect(await store.claim("a", { ...claim, owner: `${times}` })).toMatchObject(claimed);
    expect(await store.settle("a", `${times}`, result)).toBe(true);
    expect(await store.claim("d", { ...claim, owner: `${times}` })).toMatchObject(claimed);
    expect(await store.settle("d", `${times}`, result)).toBe(true);
    await expect(store.claim("e", claim)).rejects.toMatchObject({ code: "STORE_FULL" });
    await clock.advance(20);
  }
});

test.each([0, Number.NaN, 2 ** 40 + 1])("rejects maxBytes %d", (maxBytes) => {
  expect(() => memoryStore({ maxBytes })).toThrow(/maxBytes must be 1 to 1099511627776/);
});

test.each([0, -1, Number.NaN, 10_000_001])("rejects maxKeys %d", (maxKeys) => {
  expect(() => memoryStore({ maxKeys })).toThrow(/maxKeys must be 1 to 10000000/);
});
