/** Tests of duplicates: a message whose id was handled before is skipped. */
import { describe, expect, test } from "vitest";
import { deferred, world } from "../call/world.testing.ts";
import type { IdempotencyStore } from "../stores/idempotency-store.ts";
import { memoryStore } from "../stores/memory-store.ts";
import type { ConsumeOptions } from "./consume.ts";
import { deliver, kinds, message, setup } from "./consumer.testing.ts";
import type { MessageHandler } from "./message.ts";

describe("a message with an id that was handled before", () => {
  const stored = (handler: MessageHandler<unknown>, more: ConsumeOptions = {}) => {
    const { clock } = world();
    const store = memoryStore({ clock });
    return { ...setup(handler, { clock, store, ...more }), clock, store };
  };

  test("is acknowledged, and its handler does not run", async () => {
    let calls = 0;
    const { consumer, events } = stored(() => void calls++);
    for (const isDuplicate of [false, true, true]) {
      expect(await consumer.handle(message("m1"))).toEqual({ kind: "ack", isDuplicate });
    }
    expect(calls).toBe(1);
    expect(events.map(({ type }) => type)).toEqual(["handled", "duplicate", "duplicate"]);
  });

  test("is handled again after the retention", async () => {
    const { consumer, clock } = stored(() => "done", { retentionMs: 60_000 });
    await consumer.handle(message("m1"));
    await clock.advance(60_000);
    expect(await consumer.handle(message("m1"))).toEqual({ kind: "ack", isDuplicate: false });
  });

  test("is handled if the earlier attempt failed", async () => {
    const seen = stored((_, { attempt }) => (attempt < 3 ? Promise.reject(new Error("no")) : 1));
    expect(kinds(await deliver(seen))).toEqual(["retry", "retry", "ack"]);
  });

  test("is deferred while another delivery of it is handled, and uses no attempt", async () => {
    const release = deferred();
    const { consumer } = stored(() => release.promise);
    const first = consumer.handle(message("m1"));
    const second = await consumer.handle(message("m1"));
    expect(second).toMatchObject({ kind: "defer", by: "in-progress", state: { attempts: 0 } });
    const delayMs = second.kind === "defer" ? second.delayMs : Number.NaN;
    expect(delayMs).toBeGreaterThanOrEqual(2500);
    expect(delayMs).toBeLessThanOrEqual(7500);
    release.resolve();
    expect(await first).toMatchObject({ kind: "ack" });
  });

  test("belongs to its own consumer: another one with the same store handles it", async () => {
    const { consumer, store } = stored(() => "done");
    const other = setup(() => "done", { store, name: "audit" });
    await consumer.handle(message("m1"));
    expect(await other.consumer.handle(message("m1"))).toMatchObject({ isDuplicate: false });
  });

  test("may have any id", async () => {
    const { consumer } = stored(() => "done");
    for (const id of ["\u0000\n", "ü", "x".repeat(10_000)]) {
      expect(await consumer.handle(message(id))).toMatchObject({ isDuplicate: false });
      expect(await consumer.handle(message(id))).toMatchObject({ isDuplicate: true });
    }
  });

  test("waits while the store fails", async () => {
    const { store: good } = stored(() => "done");
    let isDown = true;
    const claim: typeof good.claim = (key, given) =>
      isDown ? Promise.reject(new Error("down")) : good.claim(key, given);
    let calls = 0;
    const failing = { ...bound(good), claim };
    const { consumer, events } = setup(() => void calls++, { store: failing });
    const held = await consumer.handle(message("m1"));
    expect(held).toMatchObject({ kind: "defer", by: "store", state: { attempts: 0 } });
    expect(events[0]).toMatchObject({ type: "store-failed", id: "m1" });
    expect(calls).toBe(0);
    isDown = false;
    expect(await consumer.handle(message("m1"))).toMatchObject({ kind: "ack" });
  });

  test("was handled even if the store could not record it", async () => {
    const { store: good } = stored(() => "done");
    const settle = () => Promise.reject(new Error("down"));
    const { consumer, events } = setup(() => "done", { store: { ...bound(good), settle } });
    expect(await consumer.handle(message("m1"))).toEqual({ kind: "ack", isDuplicate: false });
    expect(events.map(({ type }) => type)).toEqual(["handled", "store-failed"]);
  });
});

/** The store's functions, for a store that replaces some of them. */
function bound(store: IdempotencyStore): IdempotencyStore {
  return {
    claim: (key, claim) => store.claim(key, claim),
    renew: (key, owner, leaseMs) => store.renew(key, owner, leaseMs),
    settle: (key, owner, settlement) => store.settle(key, owner, settlement),
    release: (key, owner) => store.release(key, owner),
    sweep: (limit) => store.sweep(limit),
  };
}
