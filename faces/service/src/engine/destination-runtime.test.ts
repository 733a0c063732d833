/** Tests of a destination on one node: its guards, its row and when it is idle. */
import {
  createGuards,
  type GuardOptions,
  guardOptionsOf,
  type Permit,
  rampUp,
  resolveDestination,
  seededRandom,
} from "@redrive/core";
import { describe, expect, it } from "vitest";
import { blankDestination, type DestinationRow } from "../model/destination-row.ts";
import { T0, TENANT } from "../stores/store.testing.ts";
import {
  adoptColumns,
  changedColumns,
  DestinationRuntime,
  keepUnchanged,
} from "./destination-runtime.ts";

const NAME = "d";

/** Allows one retry in ten seconds, and one more per first attempt. */
const RATIO = { retryBudget: { kind: "RATIO", ratio: 1, minPerSecond: 0.1, windowMs: 10_000 } };

function rowOf(fields: Partial<DestinationRow> = {}): DestinationRow {
  return { ...blankDestination(TENANT, NAME), version: 1, ...fields };
}

function destinationWith(document?: object): DestinationRuntime {
  const key = { tenantId: TENANT, name: NAME };
  const destination = new DestinationRuntime(seededRandom("d"), key, T0, undefined);
  if (document !== undefined) destination.adopt(rowOf({ document: JSON.stringify(document) }), T0);
  return destination;
}

const send = (destination: DestinationRuntime) =>
  destination.maySend(destination.takePermit(false, T0) as Permit, T0, false);

describe("a retry budget", () => {
  it("counts first attempts when they are sent, and not when they are claimed", () => {
    const destination = destinationWith(RATIO);
    expect(destination.takePermit(true, T0)).toBeDefined();
    const permit = destination.takePermit(false, T0);
    expect(destination.wouldAdmit(true, T0)).toBe(false);
    expect(destination.maySend(permit as Permit, T0, false)).toBe(true);
    expect(destination.wouldAdmit(true, T0)).toBe(true);
  });

  it("does not continue with the state of another document", () => {
    const before = destinationWith(RATIO);
    send(before);
    const restart = (version: number) => {
      const destination = destinationWith();
      destination.restoreGuards(before.savedGuards());
      destination.recordWrite(rowOf({ version }));
      destination.adopt(rowOf({ version: version + 1, document: JSON.stringify(RATIO) }), T0);
      expect(destination.takePermit(true, T0)).toBeDefined();
      return destination.wouldAdmit(true, T0);
    };
    // Version 0: the row is read for the first time, so its document is the one of the saved state.
    expect([restart(0), restart(1)]).toEqual([true, false]);
  });
});

describe("a row of another node", () => {
  it("does not shorten a gate", () => {
    const destination = destinationWith({});
    destination.adopt(rowOf({ version: 2, gateUntil: T0 + 5000 }), T0);
    destination.adopt(rowOf({ version: 3, gateUntil: T0 + 1000 }), T0);
    expect(destination.admission.gateUntil).toBe(T0 + 5000);
  });

  const open = { state: "OPEN", openUntil: T0 + 9000, openCount: 1 } as const;
  const breakerThatIsOpen = () => {
    const destination = destinationWith({});
    const { state: breakerState, ...columns } = open;
    destination.adopt(rowOf({ version: 2, breakerState, ...columns }), T0);
    return destination.guards.breaker!;
  };

  it("leaves a circuit alone that only this node has opened, unless it changes the circuit", () => {
    const breaker = breakerThatIsOpen();
    adoptColumns(breaker, rowOf(), rowOf({ version: 2, pausedAt: T0 }), T0);
    expect(breaker).toMatchObject(open);
    adoptColumns(breaker, rowOf(), rowOf({ version: 2, openCount: 1 }), T0);
    expect(breaker.state).toBe("CLOSED");
  });

  it("is replaced when the circuit has closed", () => {
    const { breaker } = createGuards(guardOptionsOf(resolveDestination({}, "service")), T0);
    const written = rowOf({ breakerState: "OPEN", openUntil: T0, openCount: 2 });
    expect(changedColumns(breaker!, written, 0)).toMatchObject({ breakerState: "CLOSED" });
    expect(changedColumns(breaker!, rowOf(), 0)).toBeNull();
  });
});

describe("an idle destination", () => {
  const isIdle = (destination: DestinationRuntime) => destination.isIdleSince(T0 + 1);

  it("has no state that a new one would not have", () => {
    const changes: readonly ((destination: DestinationRuntime) => unknown)[] = [
      () => {},
      (destination) => Object.assign(destination, { isSavePending: true }),
      (destination) => Object.assign(destination.admission, { gateUntil: T0 + 2 }),
      (destination) => Object.assign(destination, { row: rowOf({ gateUntil: T0 + 2 }) }),
      (destination) => Object.assign(destination, { users: 1 }),
    ];
    const idle = changes.map((change) => {
      const destination = destinationWith();
      change(destination);
      return isIdle(destination);
    });
    expect(idle).toEqual([true, false, false, false, false]);
  });

  it("has a limit of at least half of the initial one, and no ramp", () => {
    const idle = [64, 32, 31].map((limit) => {
      const destination = destinationWith();
      const { concurrency } = destination.admission.guards;
      if (concurrency) concurrency.estimate.limit = limit;
      return isIdle(destination);
    });
    expect(idle).toEqual([true, true, false]);
    const ramped = destinationWith();
    rampUp(ramped.admission, T0);
    expect(isIdle(ramped)).toBe(false);
  });
});

describe("a changed document", () => {
  it("keeps the state of a guard if only the order of its fields has changed", () => {
    const options = [
      { rate: { perSecond: 1, burst: 2 } },
      { rate: { burst: 2, perSecond: 1 } },
      { rate: { burst: 3, perSecond: 1 } },
    ] as unknown as readonly [GuardOptions, GuardOptions, GuardOptions];
    const [current, same, other] = options.map((one) => ({
      guards: createGuards(one, T0),
      options: one,
    }));
    expect(keepUnchanged(current!, same!).rate).toBe(current!.guards.rate);
    expect(keepUnchanged(current!, other!).rate).toBe(other!.guards.rate);
  });
});
