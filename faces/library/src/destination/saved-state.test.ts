/** Tests of saved state: a restarted process knows what it knew, and takes no garbage for it. */
import { DocumentError, RedriveError } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { rejectionOf, statusError, world } from "../call/world.testing.ts";
import { destination } from "./destination.ts";

const GUARDS = {
  policy: { maxAttempts: 1 },
  breaker: { minCalls: 2, openMs: 10_000 },
  concurrency: { algorithm: "AIMD", max: 8 },
  rate: { perSecond: 100, adaptive: true, throttle: { k: 100 } },
} as const;

const down = () => Promise.reject(statusError(500));

/** A destination that has learnt that its dependency, and one shard of it, are down. */
async function experienced() {
  const { clock, random } = world("life");
  const input = { ...GUARDS, clock, random };
  const shop = destination("shop", input);
  await clock.run(shop.run(() => "well"));
  for (let n = 0; n < 2; n++) {
    await rejectionOf(clock.run(shop.run(down)));
    await rejectionOf(clock.run(shop.run(down, { key: "eu" })));
  }
  const saved: unknown = JSON.parse(JSON.stringify(shop.save()));
  return { clock, input, shop, saved };
}

describe("a restored destination", () => {
  test("is as open as it was, shard by shard", async () => {
    const { input, saved } = await experienced();
    const next = destination("shop", { ...input, saved });
    expect(next.stats()).toMatchObject({ breaker: "OPEN", keys: { eu: "OPEN" } });
    expect(await rejectionOf(next.run(() => 1))).toMatchObject({ reason: "circuit-open" });
    const shard = next.run(() => 1, { key: "eu" });
    expect(await rejectionOf(shard)).toMatchObject({ reason: "circuit-open" });
    expect(await next.run(() => 1, { key: "us" })).toBe(1);
  });

  test("is as old as its saved self would be by then", async () => {
    const { clock, input, saved } = await experienced();
    await clock.advance(60_000);
    expect(destination("shop", { ...input, saved }).stats().breaker).toBe("HALF_OPEN");
  });

  test("saves what it was given", async () => {
    const { input, saved } = await experienced();
    const again: unknown = JSON.parse(JSON.stringify(destination("s", { ...input, saved }).save()));
    expect(again).toEqual(saved);
  });

  test("starts a guard afresh that was off when it was saved, and drops one that is off now", async () => {
    const { clock, random } = world();
    const bare = destination("shop", { clock, random }).save();
    const full = destination("shop", { ...GUARDS, clock, random, saved: bare });
    expect(full.stats()).toMatchObject({ breaker: "CLOSED", concurrencyLimit: 8 });
    const less = destination("shop", { clock, random, saved: full.save() });
    expect(less.stats().breaker).toBeUndefined();
  });
});

describe("garbage is refused", () => {
  const restore = (saved: unknown) => () => destination("shop", { ...GUARDS, saved });

  test.each([null, 5, "text", [], {}, { version: 2 }, { version: 1 }])("%j", (saved) => {
    expect(restore(saved)).toThrow(DocumentError);
  });

  test("with a part missing, or one too many", async () => {
    const { saved } = await experienced();
    const whole = saved as Record<string, unknown>;
    for (const name of Object.keys(whole)) {
      const { [name]: _, ...rest } = whole;
      expect(restore(rest)).toThrow(`saved.${name}`);
    }
    expect(restore({ ...whole, more: 1 })).toThrow('unknown field "saved.more"');
    expect(restore({ ...whole, keys: { eu: 5 } })).toThrow(RedriveError);
  });

  test("whatever it is: an error of ours or a working destination", async () => {
    const { saved } = await experienced();
    const whole = saved as { guards: Record<string, unknown> };
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...Object.keys(whole.guards)),
        fc.jsonValue(),
        async (name, value) => {
          const broken = { ...whole, guards: { ...whole.guards, [name]: value } };
          try {
            const shop = restore(broken)();
            await shop.run(() => 1).catch(() => undefined);
          } catch (error) {
            expect(error).toBeInstanceOf(RedriveError);
          }
        },
      ),
      { numRuns: 100 },
    );
  });
});
