/** Tests of the lease of a node in a shared store: how long it may be used, and what a gap is. */
import { virtualClock } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { T0 } from "../../stores/store.testing.ts";
import { EngineTime } from "../../time/engine-time.ts";
import { NodeLease } from "./node-lease.ts";

function setup() {
  const clock = virtualClock(T0);
  const time = new EngineTime(clock, 0);
  return { clock, lease: new NodeLease({ clock, time, isExclusive: false, leaseMs: 10_000 }) };
}

describe("the lease of a node", () => {
  it("counts from the request, and is used for nine tenths of its length", async () => {
    const { clock, lease } = setup();
    const requested = lease.request();
    await clock.advance(3000);
    lease.record(requested, true);
    await clock.advance(5999);
    expect(lease.isHeld()).toBe(true);
    await clock.advance(1);
    expect(lease.isHeld()).toBe(false);
  });

  it("has a gap if the store says that it had ended, although this node has not noticed", async () => {
    const { clock, lease } = setup();
    lease.record(lease.request(), true);
    expect(lease.heldSince()).toBe(T0);
    await clock.advance(1000);
    lease.record(lease.request(), false);
    expect(lease.heldSince()).toBe(T0);
    lease.record(lease.request(), true);
    expect(lease.heldSince()).toBe(T0 + 1000);
  });

  it("is uncertain after the machine may have slept, until it is renewed", async () => {
    const { clock, lease } = setup();
    const wall = { aheadMs: 0 };
    const machine = { ...clock, now: () => clock.now() + wall.aheadMs };
    const time = new EngineTime(clock, 0);
    const slept = new NodeLease({ clock: machine, time, isExclusive: false });
    slept.record(slept.request(), false);
    wall.aheadMs = 500;
    expect(slept.isCertain()).toBe(true);
    wall.aheadMs = 501;
    expect([slept.isHeld(), slept.isCertain()]).toEqual([true, false]);
    slept.record(slept.request(), false);
    expect(slept.isCertain()).toBe(true);
    expect(lease.isHeld()).toBe(false);
  });
});
