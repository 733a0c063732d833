/** Document: shipped scenarios stay valid, whatever the controls, the track and the fixes of lint do. */
import {
  type CallsDocument,
  checkScenario,
  fixFinding,
  lint,
  type PhaseDocument,
  type ScenarioDocument,
  scenarios,
} from "@redrive/simulator";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  guardNames,
  guardOf,
  hasGuards,
  isCalls,
  isSame,
  lintContextOf,
  lintSubjectOf,
  merged,
  middleOf,
  moveEnd,
  movePhase,
  moveStart,
  newPhase,
  phaseKinds,
  phaseName,
  phaseSentence,
  policyOf,
  rowsOf,
  stepFor,
  strategyLabels,
  strategyOf,
  tiersOf,
  unguarded,
  withFix,
  withGuard,
  withKind,
  withLayerStrategy,
  withLayers,
  withMiddle,
  withPolicy,
  withServer,
  withStrategy,
} from "./document.ts";

const shipped = Object.values(scenarios).filter(isCalls);
const anyShipped = fc.constantFrom(...shipped);
const metastable = scenarios["metastable"] as CallsDocument;

const OPTIONS = {
  retryBudget: { ratio: 0.1 },
  breaker: {},
  concurrency: { algorithm: "GRADIENT" },
  hedge: { after: "p95" },
} as const;

type Step = (document: CallsDocument) => CallsDocument;

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.integer({ min: 1, max: 3 }).map(
    (count): Step =>
      (one) =>
        withLayers(one, count),
  ),
  fc.record({ guard: fc.constantFrom(...guardNames), isOn: fc.boolean() }).map(
    ({ guard, isOn }): Step =>
      (one) =>
        withGuard(one, guard, isOn ? OPTIONS[guard] : undefined),
  ),
  fc.record({ field: fc.constantFrom("initialDelayMs", "maxDelayMs"), ms: fc.nat(60_000) }).map(
    ({ field, ms }): Step =>
      (one) =>
        withPolicy(one, 0, { [field]: ms }),
  ),
  fc.integer({ min: 100, max: 60_000 }).map(
    (ms): Step =>
      (one) =>
        withPolicy(one, 0, { attemptTimeoutMs: ms }),
  ),
  fc.constantFrom(...Object.keys(strategyLabels)).map(
    (name): Step =>
      (one) =>
        withLayerStrategy(one, 0, name),
  ),
  fc
    .record({ capacityPerSecond: fc.option(fc.integer({ min: 1, max: 9999 }), { nil: undefined }) })
    .map(
      (change): Step =>
        (one) =>
          withServer(one, change),
    ),
);

describe("the controls", () => {
  test("keep a scenario valid after any changes in any order", () => {
    fc.assert(
      fc.property(anyShipped, fc.array(anyStep, { maxLength: 8 }), (document, steps) => {
        const changed = steps.reduce<CallsDocument>((one, step) => step(one), document);
        expect(checkScenario(changed)).toEqual([]);
      }),
    );
  });

  test("undo their changes: a guard on and off, a layer added and removed", () => {
    for (const guard of guardNames) {
      const on = withGuard(metastable, guard, OPTIONS[guard]);
      expect(guardOf(on, guard)).toEqual(OPTIONS[guard]);
      expect(hasGuards(on)).toBe(true);
      expect(isSame(withGuard(on, guard, undefined), metastable)).toBe(true);
      expect(isSame(unguarded(on), metastable)).toBe(true);
    }
    expect(isSame(withLayers(withLayers(metastable, 3), 1), metastable)).toBe(true);
  });

  test("change a guard on the layers that have it, and add it to the right layers", () => {
    const ladder = scenarios["ladder-4-concurrency"] as CallsDocument;
    const limited = withGuard(ladder, "concurrency", { algorithm: "AIMD" });
    expect(tiersOf(limited).map(({ destination }) => destination?.concurrency)).toEqual([
      undefined,
      { algorithm: "AIMD" },
    ]);
    const nested = withGuard(withLayers(metastable, 2), "retryBudget", { ratio: 0.2 });
    expect(tiersOf(nested).map(({ destination }) => destination?.retryBudget)).toEqual([
      { ratio: 0.2 },
      { ratio: 0.2 },
    ]);
  });

  test("keep a fault on its layer", () => {
    const atFirst = merged(metastable, {
      timeline: [{ kind: "OUTAGE", atMs: 0, forMs: 1000, tier: 0 }],
    });
    const nested = withLayers(atFirst, 2);
    expect(nested.timeline?.[0]?.tier).toBe(1);
    expect(withLayers(nested, 1).timeline?.[0]?.tier).toBe(0);
  });
});

test("a strategy can be set and read back", () => {
  for (const name of Object.keys(strategyLabels)) {
    expect(strategyOf(withStrategy(policyOf(metastable, 0), name))).toBe(name);
  }
  expect(strategyOf({ delaysMs: [1, 2] })).toBe("");
  expect(strategyOf({ backoff: "LINEAR" })).toBe("");
});

test("the middle of a duration moves and its kind stays", () => {
  const durations = [
    5,
    { kind: "FIXED", ms: 5 },
    { kind: "UNIFORM", minMs: 2, maxMs: 8 },
    { kind: "EXPONENTIAL", meanMs: 5 },
    { kind: "NORMAL", meanMs: 5, sdMs: 1 },
    { kind: "LOGNORMAL", medianMs: 5, sigma: 1 },
  ] as const;
  for (const duration of durations) {
    expect(middleOf(duration)).toBe(5);
    expect(middleOf(withMiddle(duration, 1))).toBe(1);
    expect(
      checkScenario({ ...metastable, tiers: [{ server: { latency: withMiddle(duration, 1) } }] }),
    ).toEqual([]);
  }
  expect(withMiddle(undefined, 7)).toBe(7);
});

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

const CALLS: readonly (readonly [string, CallsDocument])[] = Object.entries(
  scenarios as Readonly<Record<string, ScenarioDocument>>,
).flatMap(([name, document]) => (isCalls(document) ? [[name, document] as const] : []));

function idsIn(document: CallsDocument): readonly string[] {
  return lint(lintSubjectOf(document), lintContextOf(document)).map(
    ({ id, field }) => `${id} ${field}`,
  );
}

describe("the lint subject of a scenario", () => {
  it.each(CALLS)("%s stays valid after a fix, and the finding is gone", (_, document) => {
    const subject = lintSubjectOf(document);
    const context = lintContextOf(document);
    for (const finding of lint(subject, context)) {
      const fixed = fixFinding(subject, finding, context);
      if (fixed === undefined) continue;
      const next = withFix(document, fixed as Parameters<typeof withFix>[1]);
      expect(checkScenario(next)).toEqual([]);
      expect(idsIn(next)).not.toContain(`${finding.id} ${finding.field}`);
    }
  });

  it("contains all layers if there are several", () => {
    const nested = scenarios["ladder-0-plain"] as CallsDocument;
    expect(idsIn(nested)).toContain("nested-layers tiers");
  });
});
