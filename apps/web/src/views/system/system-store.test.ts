/** System store: a link survives opening and sharing, and an invalid link is rejected with a code. */
import { RedriveError } from "@redrive/core";
import { type CallsDocument, scenarios } from "@redrive/simulator";
import { decodeRun, encodeRun } from "@redrive/simulator/share";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import type { RunOf } from "../view.ts";
import { withGuard } from "./document.ts";
import {
  current,
  editCalls,
  entries,
  ghost,
  ghostDocument,
  keep,
  MAX_ENTRIES,
  openSystem,
  remove,
  resetSystem,
  show,
  shown,
  systemRun,
} from "./system-store.ts";

afterEach(resetSystem);

const budget = (one: CallsDocument) => withGuard(one, "retryBudget", { ratio: 0.1 });

describe("a link", () => {
  const anyRun = fc
    .array(
      fc.oneof(
        fc.constantFrom(...Object.keys(scenarios)),
        fc.integer({ min: 1, max: 5000 }).map(
          (ratePerSecond): CallsDocument => ({
            name: "mine",
            clients: { kind: "OPEN", ratePerSecond },
          }),
        ),
      ),
      { minLength: 1, maxLength: MAX_ENTRIES },
    )
    .chain((list) =>
      fc.record(
        {
          view: fc.constant("system" as const),
          seed: fc.oneof(fc.nat(), fc.constant("a-word")),
          scenarios: fc.constant(list),
          shown: fc.integer({ min: 1, max: Math.max(1, list.length - 1) }),
          ghost: fc.oneof(fc.constant("none" as const), fc.nat(list.length - 1)),
        },
        { requiredKeys: ["view", "seed", "scenarios"] },
      ),
    )
    .map((run) => run as RunOf<"system">);

  test("is the same after opening and sharing it", () => {
    fc.assert(
      fc.property(anyRun, (run) => {
        fc.pre((run.shown ?? 0) < run.scenarios.length);
        openSystem(run)();
        expect(decodeRun(encodeRun(systemRun()))).toEqual({ run });
      }),
    );
  });

  test.each([
    ["no scenario", [], "a link must have 1 to 12 scenarios, got 0"],
    ["an unknown name", ["nonsense"], 'unknown scenario "nonsense"'],
    [
      "a bad number",
      [{ clients: { kind: "OPEN", ratePerSecond: -1 } }],
      "clients.ratePerSecond must be a number from 0.001 to 100000, got -1",
    ],
  ])("with %s is rejected, and nothing changes", (_, list, message) => {
    const before = systemRun();
    const run = { view: "system", seed: 1, scenarios: list } as RunOf<"system">;
    expect(() => openSystem(run)).toThrow(RedriveError);
    expect(() => openSystem(run)).toThrow(message);
    expect(systemRun()).toEqual(before);
  });

  test("with an index out of range opens the first scenario", () => {
    openSystem({ view: "system", seed: 1, scenarios: ["failover"], shown: 7, ghost: 9 })();
    expect([shown.value, ghost.value]).toEqual([0, "unguarded"]);
  });
});

describe("a scenario", () => {
  test("that is changed and changed back is stored by name again", () => {
    editCalls(budget);
    expect(current.value.description).toBeUndefined();
    expect(typeof entries.value[0]).toBe("object");
    editCalls((one) => withGuard(one, "retryBudget", undefined));
    expect(entries.value).toEqual(["metastable"]);
  });

  test("with a guard has the same scenario without guards as its ghost; without one it has none", () => {
    expect(ghostDocument.value).toBeUndefined();
    editCalls(budget);
    expect(ghostDocument.value).toEqual({ ...current.value, tiers: [expect.anything()] });
  });

  test("that was kept stays unchanged while the current one changes", () => {
    keep();
    editCalls(budget);
    expect([entries.value.length, entries.value[1], ghost.value]).toEqual([2, "metastable", 1]);
    show(1);
    expect([current.value.name, ghost.value]).toEqual(["metastable", "none"]);
    remove(0);
    expect([entries.value, shown.value]).toEqual([["metastable"], 0]);
    remove(0);
    expect(entries.value).toEqual(["metastable"]);
  });
});
