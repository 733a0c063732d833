/**
 * Conformance: what every idempotency store must do, as one suite. The test of a store passes a
 * function that opens the store on the given clock.
 */
import { type VirtualClock, virtualClock } from "@redrive/core";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim, IdempotencyStore } from "./idempotency-store.ts";
import { ModelStore, runStep, type Step } from "./store-model.testing.ts";

const LEASE_MS = 10_000;
const RETENTION_MS = 60_000;

export interface OpenedStore {
  readonly store: IdempotencyStore;
  close?(): Promise<void>;
}

/** `runs` is how many random histories are compared with the model; fewer for a slow store. */
export function idempotencyStoreConformance(
  name: string,
  open: (clock: VirtualClock) => Promise<OpenedStore>,
  runs = 100,
): void {
  const clock = virtualClock(1_700_000_000_000);
  let opened: OpenedStore;
  let count = 0;
  beforeAll(async () => {
    opened = await open(clock);
  });
  afterAll(() => opened.close?.());

  /** A key that no other test uses. */
  const newKey = () => `${name}-${count++}`;
  const claim = (key: string, owner = "a", more: Partial<Claim> = {}) =>
    opened.store.claim(key, {
      fingerprint: "f",
      owner,
      leaseMs: LEASE_MS,
      retentionMs: RETENTION_MS,
      ...more,
    });
  const settle = (key: string, owner = "a", result = Uint8Array.of(1)) =>
    opened.store.settle(key, owner, { result, retentionMs: RETENTION_MS });
  const claimed = (takeovers = 0) => ({ kind: "claimed", takeovers });

  describe(`${name}: a claim`, () => {
    test("takes a free key, and the second claim learns who has it", async () => {
      const key = newKey();
      expect(await claim(key)).toEqual(claimed());
      await clock.advance(4_000);
      expect(await claim(key, "b", { fingerprint: "g" })).toEqual({
        kind: "running",
        fingerprint: "f",
        leaseLeftMs: 6_000,
      });
    });

    test("succeeds once if 50 callers race for one key", async () => {
      const key = newKey();
      const owners = Array.from({ length: 50 }, (_, index) => `owner-${index}`);
      const results = await Promise.all(owners.map((owner) => claim(key, owner)));
      expect(results.filter(({ kind }) => kind === "claimed")).toHaveLength(1);
      expect(results.filter(({ kind }) => kind === "running")).toHaveLength(49);
    });

    test("succeeds once if 50 callers race for a key whose lease has ended", async () => {
      const key = newKey();
      await claim(key, "crashed");
      await clock.advance(LEASE_MS);
      const owners = Array.from({ length: 50 }, (_, index) => `owner-${index}`);
      const results = await Promise.all(owners.map((owner) => claim(key, owner)));
      expect(results.filter(({ kind }) => kind === "claimed")).toEqual([claimed(1)]);
    });

    test("keeps keys apart that differ in one character or in case", async () => {
      const key = newKey();
      const keys = [key, `${key}x`, `${key}X`, `${key} `, `${key}"'%_\\`];
      for (const one of keys) expect(await claim(one)).toEqual(claimed());
    });

    test("counts the claims before it that ended with their lease", async () => {
      const key = newKey();
      await claim(key, "a");
      await clock.advance(LEASE_MS);
      expect(await claim(key, "b")).toEqual(claimed(1));
      await clock.advance(LEASE_MS);
      expect(await claim(key, "c")).toEqual(claimed(2));
    });

    test("with another fingerprint does not take over a key whose lease has ended", async () => {
      const key = newKey();
      await claim(key);
      await clock.advance(LEASE_MS + 1);
      const other = await claim(key, "b", { fingerprint: "g" });
      expect(other).toEqual({ kind: "running", fingerprint: "f", leaseLeftMs: 0 });
      expect(await claim(key, "b")).toEqual(claimed(1));
    });
  });

  describe(`${name}: a lease`, () => {
    test("ends at its instant, not before", async () => {
      const key = newKey();
      await claim(key);
      await clock.advance(LEASE_MS - 1);
      expect(await claim(key, "b")).toMatchObject({ kind: "running", leaseLeftMs: 1 });
      await clock.advance(1);
      expect(await claim(key, "b")).toEqual(claimed(1));
    });

    test("starts anew with each renewal, for longer than the retention", async () => {
      const key = newKey();
      await claim(key, "a", { retentionMs: 1 });
      for (let renewal = 0; renewal < 10; renewal++) {
        await clock.advance(LEASE_MS - 1);
        expect(await opened.store.renew(key, "a", LEASE_MS)).toBe(true);
      }
      expect(await claim(key, "b")).toMatchObject({ kind: "running", leaseLeftMs: LEASE_MS });
    });

    test("is not renewed for another owner, for an unknown key, or after the result", async () => {
      const key = newKey();
      expect(await opened.store.renew(key, "a", LEASE_MS)).toBe(false);
      await claim(key);
      expect(await opened.store.renew(key, "b", LEASE_MS)).toBe(false);
      await settle(key);
      expect(await opened.store.renew(key, "a", LEASE_MS)).toBe(false);
      await clock.advance(RETENTION_MS);
      expect(await claim(key)).toEqual(claimed());
    });

    test("that has ended can be renewed if nobody has taken the key", async () => {
      const key = newKey();
      await claim(key);
      await clock.advance(LEASE_MS * 2);
      expect(await opened.store.renew(key, "a", LEASE_MS)).toBe(true);
      expect(await claim(key, "b")).toMatchObject({ kind: "running" });
    });
  });

  describe(`${name}: a result`, () => {
    test.each([
      ["every byte", Uint8Array.from({ length: 256 }, (_, byte) => byte)],
      ["no bytes", new Uint8Array()],
      ["a megabyte", new Uint8Array(1_000_000).map((_, index) => index * 7)],
      ["part of a buffer", new Uint8Array(Uint8Array.of(9, 1, 2, 9).buffer, 1, 2)],
    ])("is returned byte for byte: %s", async (_, result) => {
      const key = newKey();
      await claim(key);
      const expected = result.slice();
      expect(await settle(key, "a", result)).toBe(true);
      const found = await claim(key, "b");
      expect(found).toMatchObject({ kind: "settled", fingerprint: "f" });
      if (found.kind !== "settled") throw new Error(found.kind);
      // `toEqual` compares a megabyte too slowly.
      expect(Buffer.compare(found.result, expected)).toBe(0);
      expect(found.result).toBeInstanceOf(Uint8Array);
    });

    test.each([
      ["buffer", Buffer.of(1, 2, 3)],
      ["bytes", Uint8Array.of(1, 2, 3)],
    ])("does not change with the caller's %s", async (_, buffer) => {
      const key = newKey();
      await claim(key);
      await settle(key, "a", buffer);
      buffer.fill(9);
      const first = await claim(key, "b");
      if (first.kind === "settled") first.result.fill(8);
      const found = await claim(key, "b");
      expect(found.kind === "settled" && [...found.result]).toEqual([1, 2, 3]);
    });

    test("of a late finisher is refused: the key has another owner", async () => {
      const key = newKey();
      await claim(key, "late");
      await clock.advance(LEASE_MS);
      await claim(key, "next");
      expect(await settle(key, "late", Uint8Array.of(1))).toBe(false);
      expect(await settle(key, "next", Uint8Array.of(2))).toBe(true);
      expect(await settle(key, "late", Uint8Array.of(1))).toBe(false);
      expect(await claim(key)).toMatchObject({ kind: "settled", result: { 0: 2 } });
    });

    test("of a late finisher is refused after the next owner released the key", async () => {
      const key = newKey();
      await claim(key, "late");
      await clock.advance(LEASE_MS);
      await claim(key, "next");
      await opened.store.release(key, "next");
      expect(await settle(key, "late")).toBe(false);
      await claim(key, "third");
      expect(await settle(key, "late")).toBe(false);
    });

    test("of an owner whose lease has ended is stored if nobody has taken the key", async () => {
      const key = newKey();
      await claim(key);
      await clock.advance(LEASE_MS * 2);
      expect(await settle(key)).toBe(true);
    });

    test("can be stored again by the same owner, as after a lost response", async () => {
      const key = newKey();
      await claim(key);
      expect([await settle(key), await settle(key)]).toEqual([true, true]);
    });

    test("is forgotten after its retention, not before", async () => {
      const key = newKey();
      await claim(key);
      await clock.advance(5_000);
      await settle(key);
      await clock.advance(RETENTION_MS - 1);
      expect(await claim(key)).toMatchObject({ kind: "settled" });
      await clock.advance(1);
      expect(await claim(key, "b", { fingerprint: "g" })).toEqual(claimed());
    });

    test("is kept for 45 days, if its retention says so", async () => {
      const key = newKey();
      const retentionMs = 45 * 86_400_000;
      await claim(key, "a", { retentionMs });
      await opened.store.settle(key, "a", { result: Uint8Array.of(1), retentionMs });
      await clock.advance(retentionMs - 1);
      expect(await claim(key, "b")).toMatchObject({ kind: "settled" });
      await clock.advance(1);
      expect(await claim(key, "b")).toEqual(claimed());
    });

    test("is not returned to a claim that took the key after its retention", async () => {
      const key = newKey();
      await claim(key);
      await settle(key);
      await clock.advance(RETENTION_MS);
      expect(await claim(key, "b")).toEqual(claimed());
      expect(await claim(key, "c")).toMatchObject({ kind: "running" });
      expect(await settle(key, "a")).toBe(false);
    });
  });

  describe(`${name}: a release`, () => {
    test("frees the key at once, for any fingerprint", async () => {
      const key = newKey();
      await claim(key);
      expect(await opened.store.release(key, "a")).toBe(true);
      expect(await claim(key, "b", { fingerprint: "g" })).toEqual(claimed());
    });

    test("does not remove a result, nor the claim of another owner", async () => {
      const key = newKey();
      expect(await opened.store.release(key, "a")).toBe(false);
      await claim(key);
      expect(await opened.store.release(key, "b")).toBe(false);
      await settle(key);
      expect(await opened.store.release(key, "a")).toBe(false);
      expect(await claim(key)).toMatchObject({ kind: "settled" });
    });
  });

  test(`${name}: a sweep removes expired keys only, at most so many at once`, async () => {
    await clock.advance(RETENTION_MS * 2);
    while ((await opened.store.sweep(1000)) > 0);
    const old = [newKey(), newKey(), newKey()];
    for (const key of old) await claim(key, "a", { retentionMs: 1 });
    const kept = newKey();
    await claim(kept);
    await clock.advance(LEASE_MS + 1);
    let removed = 0;
    for (let sweep = 0; sweep < 10; sweep++) {
      const count = await opened.store.sweep(2);
      expect(count).toBeLessThanOrEqual(2);
      removed += count;
    }
    // A store whose server removes expired keys by itself has nothing to sweep.
    expect([0, 3]).toContain(removed);
    for (const key of old) expect(await claim(key)).toEqual(claimed());
    expect(await claim(kept, "b")).toEqual(claimed(1));
  });

  describe(`${name}: refuses`, () => {
    test.each<[string, string, Partial<Claim>]>([
      ["an empty key", "", {}],
      ["a key of 257 characters", "x".repeat(257), {}],
      ["a key with NUL", "a\0b", {}],
      ["a key that is not ASCII", "ключ", {}],
      ["an empty owner", "k", { owner: "" }],
      ["an empty fingerprint", "k", { fingerprint: "" }],
      ["a lease of 0 ms", "k", { leaseMs: 0 }],
      ["a lease of half a millisecond", "k", { leaseMs: 1.5 }],
      ["a retention of 46 days", "k", { retentionMs: 46 * 86_400_000 }],
    ])("%s", async (_, key, more) => {
      await expect(claim(key, "a", more)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    });

    test("a result that is not bytes, and a bad retention or lease", async () => {
      const key = newKey();
      await claim(key);
      const bad = { code: "INVALID_ARGUMENT" };
      await expect(settle(key, "a", "text" as never)).rejects.toMatchObject(bad);
      const noTime = { result: new Uint8Array(), retentionMs: 0 };
      await expect(opened.store.settle(key, "a", noTime)).rejects.toMatchObject(bad);
      await expect(opened.store.renew(key, "a", Number.NaN)).rejects.toMatchObject(bad);
    });
  });

  test(`${name}: behaves like the model in random histories`, async () => {
    const owner = fc.constantFrom("a", "b", "c");
    const key = fc.constantFrom("k", "l");
    const fingerprint = fc.constantFrom("f", "g");
    const leaseMs = fc.integer({ min: 1, max: 50 });
    const retentionMs = fc.integer({ min: 1, max: 200 });
    const byte = fc.nat(255);
    const step: fc.Arbitrary<Step> = fc.oneof(
      fc.record({
        kind: fc.constant("claim"),
        key,
        owner,
        fingerprint,
        leaseMs,
        retentionMs,
      } as const),
      fc.record({ kind: fc.constant("renew"), key, owner, leaseMs } as const),
      fc.record({ kind: fc.constant("settle"), key, owner, byte, retentionMs } as const),
      fc.record({ kind: fc.constant("release"), key, owner } as const),
      fc.record({ kind: fc.constant("advance"), ms: fc.nat(80) } as const),
      fc.record({ kind: fc.constant("sweep") } as const),
    );
    const histories = fc.array(step, { minLength: 5, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(histories, async (steps) => {
        const model = new ModelStore();
        const prefix = `${newKey()}-`;
        for (const one of steps) {
          if (one.kind === "advance") await clock.advance(one.ms);
          else if (one.kind === "sweep") await opened.store.sweep(100);
          else {
            const expected = model.step(one, clock.now());
            expect(await runStep(opened.store, prefix, one)).toEqual(expected);
          }
        }
      }),
      { numRuns: runs },
    );
  });
}
