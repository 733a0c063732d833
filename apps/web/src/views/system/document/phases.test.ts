/** Phases: a drag gives a valid phase and moves what the pointer moves. */
import { checkScenario, type PhaseDocument } from "@redrive/simulator";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  moveEnd,
  movePhase,
  moveStart,
  newPhase,
  phaseKinds,
  phaseName,
  phaseSentence,
  rowsOf,
  stepFor,
  withKind,
} from "./phases.ts";

const END_MS = 60_000;

const anyPhase = fc
  .record({
    kind: fc.constantFrom(...phaseKinds.map(({ kind }) => kind)),
    atMs: fc.nat(50_000),
    forMs: fc.integer({ min: 500, max: 60_000 }),
  })
  .map((phase) => phase as PhaseDocument);

const anywhere = fc.double({ min: -1e5, max: 2e5, noNaN: true });

function problemsOf(timeline: readonly PhaseDocument[]) {
  return checkScenario({ clients: { kind: "OPEN", ratePerSecond: 1 }, timeline });
}

describe("a drag", () => {
  test("gives a phase that is valid in a scenario", () => {
    fc.assert(
      fc.property(
        anyPhase,
        fc.array(fc.tuple(fc.constantFrom(movePhase, moveStart, moveEnd), anywhere), {
          maxLength: 6,
        }),
        (phase, drags) => {
          const dragged = drags.reduce((one, [drag, ms]) => drag(one, ms, END_MS), phase);
          expect(problemsOf([dragged])).toEqual([]);
        },
      ),
    );
  });

  test("moves a phase without changing its length, and an edge without the other edge", () => {
    fc.assert(
      fc.property(anyPhase, anywhere, (phase, ms) => {
        expect(movePhase(phase, ms, END_MS).forMs).toBe(phase.forMs);
        const started = moveStart(phase, ms, END_MS);
        expect(started.atMs + started.forMs).toBe(phase.atMs + phase.forMs);
        expect(moveEnd(phase, ms, END_MS).atMs).toBe(phase.atMs);
      }),
    );
  });

  test("moves in round steps", () => {
    expect(stepFor(END_MS)).toBe(200);
    const phase: PhaseDocument = { kind: "OUTAGE", atMs: 10_000, forMs: 5000 };
    expect(movePhase(phase, 12_345, END_MS).atMs).toBe(12_400);
    expect(moveEnd(phase, 17_777, END_MS).forMs).toBe(7800);
    expect(moveStart(phase, 9_099, END_MS)).toMatchObject({ atMs: 9000, forMs: 6000 });
  });
});

test("a new phase of every kind is valid and lies in a free gap", () => {
  for (const { kind } of phaseKinds) {
    const first = newPhase(kind, [], END_MS);
    const second = newPhase(kind, [first], END_MS);
    expect(problemsOf([first, second])).toEqual([]);
    expect(rowsOf([first, second])).toEqual([0, 0]);
  }
});

test("phases that overlap have different rows", () => {
  const at = (atMs: number, forMs: number): PhaseDocument => ({ kind: "OUTAGE", atMs, forMs });
  expect(rowsOf([at(0, 10), at(5, 10), at(10, 10), at(12, 1)])).toEqual([0, 1, 0, 2]);
  fc.assert(
    fc.property(fc.array(anyPhase, { maxLength: 12 }), (phases) => {
      const rows = rowsOf(phases);
      for (const [i, one] of phases.entries()) {
        for (const [j, other] of phases.entries()) {
          if (i >= j || rows[i] !== rows[j]) continue;
          expect(one.atMs >= other.atMs + other.forMs || other.atMs >= one.atMs + one.forMs).toBe(
            true,
          );
        }
      }
    }),
  );
});

test("a phase is described with its strength and time", () => {
  const dip: PhaseDocument = { kind: "CAPACITY", atMs: 10_000, forMs: 10_000 };
  expect(phaseSentence(dip)).toBe("Capacity dip 0.2 x, 10 s to 20 s");
  expect(phaseName({ ...withKind(dip, "PARTIAL"), share: 0.33 })).toBe("Partial outage 33 %");
  expect(phaseSentence({ kind: "OUTAGE", atMs: 0, forMs: 8000 })).toBe("Full outage, 0 to 8 s");
});
