/** Tests of the real clock and real randomness: the only tests that read the machine's time. */
import { describe, expect, test, vi } from "vitest";
import { systemBytes, systemClock, systemId, systemRandom } from "./system.ts";

describe("systemClock", () => {
  test("reads the machine's time", () => {
    const before = Date.now();
    const now = systemClock.now();
    expect(now).toBeGreaterThanOrEqual(before);
    expect(now).toBeLessThanOrEqual(Date.now());
    expect(Number.isInteger(now)).toBe(true);
  });

  test("monotonic time never goes back", () => {
    const first = systemClock.monotonicMs();
    expect(systemClock.monotonicMs()).toBeGreaterThanOrEqual(first);
  });

  test("no sleep ends early", async () => {
    for (const ms of [0, 1, 2, 5]) {
      const start = systemClock.monotonicMs();
      await systemClock.sleep(ms);
      expect(systemClock.monotonicMs() - start).toBeGreaterThanOrEqual(ms);
    }
  });

  test("an aborted sleep rejects with the reason and leaves neither timer nor listener", async () => {
    const controller = new AbortController();
    const removed = vi.spyOn(controller.signal, "removeEventListener");
    await systemClock.sleep(1, controller.signal);
    expect(removed).toHaveBeenCalledTimes(1);
    const timersBefore = timers();
    const sleeping = systemClock.sleep(60_000, controller.signal);
    controller.abort("enough");
    await expect(sleeping).rejects.toBe("enough");
    expect(timers()).toBe(timersBefore);
    await expect(systemClock.sleep(60_000, controller.signal)).rejects.toBe("enough");
    expect(timers()).toBe(timersBefore);
  });

  test("a background alarm does not keep the process alive, another does", () => {
    const before = timers();
    const background = systemClock.alarm(60_000, () => {}, true);
    expect(timers()).toBe(before);
    const other = systemClock.alarm(60_000, () => {});
    expect(timers()).toBe(before + 1);
    background();
    other();
    expect(timers()).toBe(before);
  });

  test("end of turn comes after the promises of this turn", async () => {
    const order: string[] = [];
    await new Promise<void>((resolve) => {
      systemClock.endOfTurn(() => {
        order.push("end of turn");
        resolve();
      });
      void Promise.resolve().then(() => order.push("promise"));
    });
    expect(order).toEqual(["promise", "end of turn"]);
  });

  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
});

test("systemRandom draws in [0, 1), and so do its forks", () => {
  for (const random of [systemRandom, systemRandom.fork("a")]) {
    for (let i = 0; i < 100; i++) {
      const draw = random.next();
      expect(draw >= 0 && draw < 1).toBe(true);
    }
  }
});

test("systemId gives UUIDs of version 4, all different", () => {
  const ids = Array.from({ length: 1000 }, systemId);
  for (const id of ids) {
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  }
  expect(new Set(ids).size).toBe(1000);
});

test("systemBytes gives the requested number of bytes, different each time", () => {
  expect(systemBytes(24)).toHaveLength(24);
  expect(systemBytes(24)).not.toEqual(systemBytes(24));
});
