/** Tests of the virtual clock and the seeded generator. */
import { describe, expect, test } from "vitest";
import { seededRandom, virtualClock } from "./virtual.ts";

describe("virtualClock", () => {
  test("moves only when advanced, and both its times move together", async () => {
    const clock = virtualClock(1000);
    expect(clock.now()).toBe(1000);
    expect(clock.monotonicMs()).toBe(0);
    await clock.advance(250);
    expect(clock.now()).toBe(1250);
    expect(clock.monotonicMs()).toBe(250);
  });

  test("fires alarms in order of time and, for equal times, of insertion", async () => {
    const clock = virtualClock();
    const rung: string[] = [];
    const ring = (name: string) => () => rung.push(`${name}@${clock.now()}`);
    clock.alarm(30, ring("c"));
    clock.alarm(10, ring("a"));
    clock.alarm(10, ring("b"));
    clock.alarm(10.2, ring("late"));
    await clock.advance(20);
    expect(rung).toEqual(["a@10", "b@10", "late@11"]);
    expect(clock.nextAt()).toBe(30);
    await clock.advance(10);
    expect(rung.at(-1)).toBe("c@30");
    expect(clock.pending()).toBe(0);
  });

  test("an alarm set by another alarm fires in the same advance if it is due", async () => {
    const clock = virtualClock();
    const rung: number[] = [];
    clock.alarm(5, () => clock.alarm(5, () => rung.push(clock.now())));
    await clock.advance(10);
    expect(rung).toEqual([10]);
  });

  test("a canceled alarm does not fire, and canceling twice has no effect", async () => {
    const clock = virtualClock();
    let rung = 0;
    const cancel = clock.alarm(5, () => rung++);
    clock.alarm(6, () => rung++);
    cancel();
    cancel();
    await clock.advance(10);
    expect(rung).toBe(1);
  });

  test("a sleep ends at its time, or rejects with the reason of the abort", async () => {
    const clock = virtualClock();
    const controller = new AbortController();
    const first = clock.sleep(50).then(() => clock.now());
    const second = clock.sleep(1000, controller.signal).catch((reason: unknown) => reason);
    await clock.advance(60);
    controller.abort("enough");
    expect(await first).toBe(50);
    expect(await second).toBe("enough");
    expect(clock.pending()).toBe(0);
    await expect(clock.sleep(5, controller.signal)).rejects.toBe("enough");
  });

  test("run takes an async function through all its waits", async () => {
    const clock = virtualClock();
    const work = async () => {
      for (let i = 0; i < 3; i++) await clock.sleep(86_400_000);
      return clock.now();
    };
    expect(await clock.run(work())).toBe(3 * 86_400_000);
  });

  test("run throws if there is nothing left to wait for", async () => {
    await expect(virtualClock().run(new Promise(() => {}))).rejects.toThrow(
      "nothing left to wait for",
    );
  });

  test("run passes a failure on", async () => {
    await expect(virtualClock().run(Promise.reject(new Error("own")))).rejects.toThrow("own");
  });

  test("endOfTurn and step fire one alarm at a time", async () => {
    const clock = virtualClock();
    let turns = 0;
    clock.endOfTurn(() => turns++);
    expect(await clock.step()).toBe(true);
    expect(turns).toBe(1);
    expect(await clock.step()).toBe(false);
  });

  test("refuses a start that is not an instant", () => {
    expect(() => virtualClock(-1)).toThrow("startAt must be 0 to 9007199254740991, got -1");
    expect(() => virtualClock(Number.NaN)).toThrow("got NaN");
  });
});

describe("seededRandom", () => {
  const draws = (seed: number | string, count: number) => {
    const random = seededRandom(seed);
    return Array.from({ length: count }, () => random.next());
  };

  test("the same seed always gives the same draws, which are pinned here", () => {
    expect(draws(7, 3)).toEqual(draws("7", 3));
    expect(draws(7, 3)).toMatchInlineSnapshot(`
      [
        0.9939051831185926,
        0.7575966712548791,
        0.4534383699646807,
      ]
    `);
  });

  test("different seeds give different draws, even neighboring ones", () => {
    const firsts = Array.from({ length: 1000 }, (_, seed) => draws(seed, 1)[0]);
    expect(new Set(firsts).size).toBe(1000);
    const mean = firsts.reduce<number>((sum, draw) => sum + (draw ?? 0), 0) / 1000;
    expect(mean).toBeGreaterThan(0.46);
    expect(mean).toBeLessThan(0.54);
  });

  test("draws are uniform in [0, 1)", () => {
    const counts = new Array<number>(20).fill(0);
    const all = draws(1, 40_000);
    expect(all.filter((draw) => draw < 0 || draw >= 1)).toEqual([]);
    for (const draw of all) {
      const cell = Math.floor(draw * 20);
      counts[cell] = (counts[cell] ?? 0) + 1;
    }
    expect(Math.min(...counts)).toBeGreaterThan(1850);
    expect(Math.max(...counts)).toBeLessThan(2150);
  });

  test("draws have 53 bits, so long ranges have no gaps", () => {
    const low = draws(3, 2000).map((draw) => (draw * 2 ** 53) % 2 ** 21);
    expect(new Set(low).size).toBeGreaterThan(1990);
  });

  test("a fork depends on its name and the seed, not on earlier draws", () => {
    const fresh = seededRandom(5);
    const used = seededRandom(5);
    for (let i = 0; i < 100; i++) used.next();
    expect(used.fork("a").next()).toBe(fresh.fork("a").next());
    expect(fresh.fork("a").next()).not.toBe(fresh.fork("b").next());
    expect(fresh.fork("a").fork("b").next()).not.toBe(fresh.fork("b").fork("a").next());
    expect(fresh.fork("a").next()).not.toBe(seededRandom(6).fork("a").next());
  });
});
