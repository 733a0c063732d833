/** Tests of the limits of lookups: sharing, turns, and a clear end. */
import { virtualClock } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { limitLookups, MAX_WAIT_MS, MAX_WAITING_NAMES } from "./lookup-limits.ts";
import type { ResolvedAddress } from "./resolver.ts";

const FOUND: readonly ResolvedAddress[] = [{ address: "192.0.2.1", family: 4 }];

/** A lookup whose answers come when the test says so. */
function controlled(perTenant: number, inAll: number) {
  const clock = virtualClock();
  const started: string[] = [];
  const ends = new Map<string, (error?: Error) => void>();
  const lookup = (name: string) =>
    new Promise<readonly ResolvedAddress[]>((resolve, reject) => {
      started.push(name);
      ends.set(name, (error) => (error ? reject(error) : resolve(FOUND)));
    });
  const resolve = limitLookups(clock, lookup, { perTenant, inAll });
  const end = async (name: string, error?: Error) => {
    ends.get(name)?.(error);
    await clock.advance(0);
  };
  return { clock, started, resolve, end };
}

describe("lookups of one name", () => {
  it("are shared while they run, and run again later", async () => {
    const { resolve, started, end } = controlled(2, 4);
    const first = resolve("a", "t1");
    expect(resolve("a", "t1")).toBe(first);
    expect(resolve("a", "t2")).toBe(first);
    await end("a");
    expect(await first).toBe(FOUND);
    const later = resolve("a", "t1");
    expect(later).not.toBe(first);
    expect(started).toEqual(["a", "a"]);
    await end("a");
    expect(await later).toBe(FOUND);
  });

  it("are shared while they wait", async () => {
    const { resolve, started, end } = controlled(1, 4);
    void resolve("a", "t1");
    const waiting = resolve("b", "t1");
    expect(resolve("b", "t1")).toBe(waiting);
    await end("a");
    expect(started).toEqual(["a", "b"]);
    await end("b");
    expect(await waiting).toBe(FOUND);
  });

  it("do not wait behind another tenant's queue", async () => {
    const { resolve, started } = controlled(1, 4);
    void resolve("slow", "t1");
    void resolve("b", "t1").catch(() => {});
    void resolve("b", "t2");
    expect(started).toEqual(["slow", "b"]);
  });
});

describe("slow names of one tenant", () => {
  it("do not delay another tenant, whose lookups start at once", () => {
    const { resolve, started } = controlled(32, 256);
    for (let n = 0; n < 500; n++) resolve(`slow${n}`, "t1").catch(() => {});
    expect(started.length).toBe(32);
    void resolve("quick", "t2");
    expect(started.at(-1)).toBe("quick");
  });

  it("end with TOO_MANY_LOOKUPS if no place gets free in time, or the queue is full", async () => {
    const { resolve, clock, end } = controlled(1, 4);
    const running = resolve("slow", "t1");
    const waiting = resolve("next", "t1");
    const outcome = expect(waiting).rejects.toMatchObject({ code: "TOO_MANY_LOOKUPS" });
    await clock.advance(MAX_WAIT_MS);
    await outcome;
    for (let n = 0; n < MAX_WAITING_NAMES; n++) resolve(`more${n}`, "t1").catch(() => {});
    await expect(resolve("excess", "t1")).rejects.toMatchObject({ code: "TOO_MANY_LOOKUPS" });
    await clock.advance(MAX_WAIT_MS);
    await end("slow");
    expect(await running).toBe(FOUND);
    expect(clock.pending()).toBe(0);
  });
});

it("tenants take turns when all places are taken, and a failure frees its place", async () => {
  const { resolve, started, end } = controlled(2, 2);
  const all = ["a1", "a2", "a3", "a4"].map((name) => resolve(name, "ta"));
  all.push(resolve("b1", "tb"), resolve("b2", "tb"));
  const settled = Promise.allSettled(all);
  await end("a1", new Error("failed"));
  await end("a2");
  expect(started.slice(2).sort()).toEqual(["a3", "b1"]);
  for (const name of ["a3", "b1", "a4", "b2"]) await end(name);
  const statuses = (await settled).map(({ status }) => status);
  expect(statuses).toEqual(["rejected", ...new Array(5).fill("fulfilled")]);
});
