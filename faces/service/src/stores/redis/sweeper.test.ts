/** Tests how the removal of old rows is divided among scripts, so that other clients need not wait. */
import { expect, it } from "vitest";
import type { Link } from "./connection/link.ts";
import { keysOf } from "./rows.ts";
import { COUNT_EXPIRED } from "./scripts/partition-scripts.ts";
import { sweeper } from "./sweeper.ts";

const ENDS = { now: 9, endedBefore: 5, deadBefore: 3 };

/** A link to partitions with so many expired rows each. A round takes `roundMs`. */
function linkTo(expired: (base: string) => number, roundMs = 1) {
  const removed = new Map<string, number>();
  const rounds: number[] = [];
  let now = 0;
  let isOpen = false;
  const run: Link["run"] = async (script, [base = ""], args) => {
    const known = removed.get(base) ?? 0;
    if (script === COUNT_EXPIRED) return expired(base) - known;
    const limit = Number(args[3]);
    removed.set(base, known + limit);
    if (isOpen) rounds.push((rounds.pop() ?? 0) + limit);
    else rounds.push(limit);
    isOpen = true;
    await new Promise((done) => setImmediate(done));
    if (isOpen) now += roundMs;
    isOpen = false;
    return limit;
  };
  const clock = { monotonicMs: () => now };
  return { removed, rounds, ...sweeper({ run } as Link, keys, clock) };
}

const keys = keysOf("r");

it("removes from several partitions at once, and never many rows at once", async () => {
  const { removed, rounds, sweep } = linkTo(() => 50);
  expect(await sweep({ ...ENDS, limit: 1000 })).toBe(1000);
  expect(removed.size).toBe(20);
  expect(rounds).toEqual([300, 300, 300, 100]);
});

it("divides what is old in one partition", async () => {
  const { removed, rounds, sweep } = linkTo((base) => (base === keys.base(3) ? 900 : 0));
  expect(await sweep({ ...ENDS, limit: 1000 })).toBe(900);
  expect([...removed]).toEqual([[keys.base(3), 900]]);
  expect(rounds).toEqual([300, 300, 300]);
});

it("removes more at once if each round takes long anyway, up to a limit", async () => {
  const { rounds, sweep } = linkTo(() => 1000, 24);
  expect(await sweep({ ...ENDS, limit: 1500 })).toBe(1500);
  expect(rounds).toEqual([300, 600, 600]);
  const slower = linkTo(() => 1000, 1000);
  expect(await slower.sweep({ ...ENDS, limit: 2000 })).toBe(2000);
  expect(slower.rounds).toEqual([300, 1000, 700]);
});

it("visits only the partitions of the caller", async () => {
  const { removed, sweep } = linkTo(() => 5);
  expect(await sweep({ ...ENDS, limit: 1000, partitions: [7, 9] })).toBe(10);
  expect([...removed.keys()]).toEqual([keys.base(7), keys.base(9)]);
});
