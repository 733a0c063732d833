/** Tests of the breaker: one against a naive model, and one per rule. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type ModelBreaker,
  modelBreaker,
  modelEnter,
  modelLeave,
  modelState,
} from "./breaker.testing.ts";
import {
  adoptBreaker,
  BREAKER_DEFAULTS,
  type Breaker,
  type BreakerOptions,
  type BreakerOutcome,
  breakerReadyAt,
  breakerState,
  createBreaker,
  enterBreaker,
  leaveBreaker,
  openUntil,
} from "./breaker.ts";

const T0 = 1_700_000_000_000;
const MIDDLE = () => 0.5;

function breakerOf(options: Partial<BreakerOptions> = {}): Breaker {
  return createBreaker({ ...BREAKER_DEFAULTS, ...options }, T0);
}

/** Makes calls that end immediately. */
function call(breaker: Breaker, now: number, outcome: BreakerOutcome, times = 1, durationMs = 1) {
  for (let n = 0; n < times; n++) {
    const pass = enterBreaker(breaker, now);
    if (pass > 0) leaveBreaker(breaker, now, pass, outcome, durationMs, MIDDLE);
  }
}

function opened(options: Partial<BreakerOptions> = {}): Breaker {
  const breaker = breakerOf(options);
  call(breaker, T0, "failure", 20);
  return breaker;
}

interface Pair {
  readonly breaker: Breaker;
  /** Current passes. Every command checks that the model has the same. */
  readonly passes: number[];
}

type BreakerCommand = fc.Command<ModelBreaker, Pair>;

function expectSame(model: ModelBreaker, { breaker }: Pair): void {
  const isOpen = modelState(model) === "OPEN";
  expect([
    breakerState(breaker, model.now),
    openUntil(breaker, model.now),
    breaker.openCount,
    breaker.generation,
    breaker.successes,
  ]).toEqual([
    modelState(model),
    isOpen ? model.openUntil : undefined,
    model.openCount,
    model.generation,
    model.successes,
  ]);
}

function commandOf(name: string, run: (model: ModelBreaker, real: Pair) => void): BreakerCommand {
  return {
    check: () => true,
    run: (model, real) => {
      run(model, real);
      expectSame(model, real);
    },
    toString: () => name,
  };
}

const wait = (ms: number) =>
  commandOf(`wait ${ms}`, (model) => {
    model.now += ms;
  });

const enter = (times: number) =>
  commandOf(`enter x${times}`, (model, { breaker, passes }) => {
    for (let n = 0; n < times; n++) {
      const pass = enterBreaker(breaker, model.now);
      expect(pass).toBe(modelEnter(model));
      if (pass > 0) passes.push(pass);
    }
  });

const leave = (which: number, outcome: BreakerOutcome, durationMs: number, draw: number) =>
  commandOf(`leave ${which} ${outcome} ${durationMs} ${draw}`, (model, { breaker, passes }) => {
    const [pass] = passes.splice(which % Math.max(1, passes.length), 1);
    if (pass === undefined) return;
    leaveBreaker(breaker, model.now, pass, outcome, durationMs, () => draw);
    modelLeave(model, pass, outcome, durationMs, draw);
  });

const anyCommands = fc.commands(
  [
    fc.oneof(fc.nat(300), fc.nat(6000), fc.nat(90_000)).map(wait),
    fc.integer({ min: 1, max: 4 }).map(enter),
    fc
      .tuple(
        fc.nat(20),
        fc.constantFrom<BreakerOutcome>("success", "failure", "failure", "ignored"),
        fc.constantFrom(1, 100, 101, 5000),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      )
      .map((args) => leave(...args)),
  ],
  { size: "max", maxCommands: 60 },
);

const anyOptions: fc.Arbitrary<BreakerOptions> = fc.record({
  failureRate: fc.constantFrom(0.1, 0.5, 1),
  slowCallMs: fc.constantFrom(undefined, 100),
  slowRate: fc.constantFrom(0.3, 1),
  windowMs: fc.constantFrom(1000, 3333, 10_000),
  minCalls: fc.constantFrom(1, 3, 5),
  openMs: fc.constantFrom(1, 500, 5000),
  maxOpenMs: fc.constantFrom(5000, 60_000),
  halfOpenProbes: fc.integer({ min: 1, max: 3 }),
});

test("agrees with the naive model for any sequence of calls", () => {
  fc.assert(
    fc.property(anyOptions, anyCommands, (options, commands) => {
      const setup = () => ({
        model: modelBreaker(options, T0),
        real: { breaker: createBreaker(options, T0), passes: [] },
      });
      fc.modelRun(setup, commands);
    }),
    { numRuns: 30 },
  );
});

describe("opening", () => {
  test("half of 20 calls failing opens it, 9 of 20 do not", () => {
    const well = breakerOf();
    call(well, T0, "success", 11);
    call(well, T0, "failure", 9);
    expect(breakerState(well, T0)).toBe("CLOSED");
    const ill = breakerOf();
    call(ill, T0, "success", 10);
    call(ill, T0, "failure", 10);
    expect(breakerState(ill, T0)).toBe("OPEN");
  });

  test("below 20 calls no rate opens it, and an ignored outcome is not counted", () => {
    const breaker = breakerOf();
    call(breaker, T0, "failure", 19);
    call(breaker, T0, "ignored", 50);
    expect(breakerState(breaker, T0)).toBe("CLOSED");
    call(breaker, T0, "failure");
    expect(breakerState(breaker, T0)).toBe("OPEN");
  });

  test("a rate is compared exactly as the document states it", () => {
    const breaker = breakerOf({ failureRate: 0.07, minCalls: 100 });
    call(breaker, T0, "success", 93);
    call(breaker, T0, "failure", 7);
    expect(breakerState(breaker, T0)).toBe("OPEN");
  });

  test("calls longer than slowCallMs open it although they succeed, others do not", () => {
    const slow = breakerOf({ slowCallMs: 200 });
    call(slow, T0, "success", 20, 200);
    expect(breakerState(slow, T0)).toBe("CLOSED");
    const slower = breakerOf({ slowCallMs: 200, slowRate: 0.5 });
    call(slower, T0, "success", 10, 200);
    call(slower, T0, "success", 10, 201);
    expect(breakerState(slower, T0)).toBe("OPEN");
    const careless = breakerOf();
    call(careless, T0, "success", 20, 600_000);
    expect(breakerState(careless, T0)).toBe("CLOSED");
  });

  test("an old window never opens it: 19 old failures do not count", () => {
    const breaker = breakerOf();
    call(breaker, T0, "failure", 19);
    call(breaker, T0 + 10_000, "failure", 19);
    expect(breakerState(breaker, T0 + 10_000)).toBe("CLOSED");
  });
});

describe("the open duration", () => {
  test("is 5 s plus or minus a fifth, and no call enters before it is over", () => {
    for (const [draw, openDurationMs] of [
      [0, 4000],
      [0.5, 5000],
      [0.9999999, 6000],
    ] as const) {
      const breaker = breakerOf({ minCalls: 1 });
      leaveBreaker(breaker, T0, enterBreaker(breaker, T0), "failure", 1, () => draw);
      expect(openUntil(breaker, T0)).toBe(T0 + openDurationMs);
      expect(breakerReadyAt(breaker, T0)).toBe(T0 + openDurationMs);
      expect(enterBreaker(breaker, T0 + openDurationMs - 1)).toBe(0);
      expect(enterBreaker(breaker, T0 + openDurationMs)).toBeGreaterThan(0);
    }
  });

  test("doubles with every re-opening, and its jitter ends at maxOpenMs", () => {
    const breaker = opened();
    const durations: number[] = [];
    let now = T0;
    for (let n = 0; n < 6; n++) {
      durations.push((openUntil(breaker, now) ?? 0) - now);
      now = openUntil(breaker, now) ?? 0;
      call(breaker, now, "failure");
    }
    expect(durations).toEqual([5000, 10_000, 20_000, 40_000, 50_000, 50_000]);
  });

  const draws = [0, 0.25, 0.5, 0.75, 1 - Number.EPSILON / 2];
  const firstDurations = (options: Partial<BreakerOptions>) =>
    draws.map((draw) => {
      const breaker = breakerOf({ minCalls: 1, ...options });
      leaveBreaker(breaker, T0, enterBreaker(breaker, T0), "failure", 1, () => draw);
      return (openUntil(breaker, T0) ?? 0) - T0;
    });

  test("has jitter but never exceeds maxOpenMs if openMs leaves less than a fifth above it", () => {
    expect(firstDurations({ openMs: 5000, maxOpenMs: 6000 })).toEqual([
      4000, 4500, 5000, 5500, 6000,
    ]);
    expect(firstDurations({ openMs: 5000, maxOpenMs: 5000 })).toEqual([
      4000, 4250, 4500, 4750, 5000,
    ]);
    expect(firstDurations({ openMs: 5000, maxOpenMs: 5500 })).toEqual([
      4000, 4375, 4750, 5125, 5500,
    ]);
  });

  test("is at least four fifths of openMs and at most maxOpenMs, for any values", () => {
    fc.assert(
      fc.property(fc.integer({ min: 5, max: 60_000 }), fc.nat(60_000), (openMs, aboveMs) => {
        const maxOpenMs = openMs + aboveMs;
        const durations = firstDurations({ openMs, maxOpenMs });
        expect(Math.min(...durations)).toBeGreaterThanOrEqual(openMs * 0.8);
        expect(Math.max(...durations)).toBeLessThanOrEqual(Math.min(openMs * 1.2, maxOpenMs));
        expect(new Set(durations).size).toBeGreaterThan(1);
      }),
    );
  });

  test("starts again at openMs after it has closed", () => {
    const breaker = opened();
    call(breaker, T0 + 5000, "failure");
    call(breaker, T0 + 15_000, "success");
    expect(breakerState(breaker, T0 + 15_000)).toBe("CLOSED");
    call(breaker, T0 + 15_000, "failure", 20);
    expect(openUntil(breaker, T0 + 15_000)).toBe(T0 + 20_000);
  });
});

describe("half open", () => {
  test("admits halfOpenProbes probes, and closes after that many successes", () => {
    const breaker = opened({ halfOpenProbes: 3 });
    const now = T0 + 5000;
    const passes = [1, 2, 3].map(() => enterBreaker(breaker, now));
    expect(passes.every((pass) => pass > 0)).toBe(true);
    expect(enterBreaker(breaker, now)).toBe(0);
    for (const pass of passes) {
      expect(breakerState(breaker, now)).toBe("HALF_OPEN");
      leaveBreaker(breaker, now, pass, "success", 1, MIDDLE);
    }
    expect(breakerState(breaker, now)).toBe("CLOSED");
  });

  test("one failed probe opens it again, and so does a slow one", () => {
    const breaker = opened();
    call(breaker, T0 + 5000, "failure");
    expect(openUntil(breaker, T0 + 5000)).toBe(T0 + 15_000);
    const slow = opened({ slowCallMs: 10 });
    call(slow, T0 + 5000, "success", 1, 11);
    expect(breakerState(slow, T0 + 5000)).toBe("OPEN");
  });

  test("an ignored probe frees its slot and decides nothing", () => {
    const breaker = opened();
    call(breaker, T0 + 5000, "ignored", 3);
    expect(breakerState(breaker, T0 + 5000)).toBe("HALF_OPEN");
    expect(enterBreaker(breaker, T0 + 5000)).toBeGreaterThan(0);
  });

  test("a probe that never ends is given up after the open duration, so the breaker cannot hang", () => {
    const breaker = opened();
    const now = T0 + 5000;
    expect(breakerReadyAt(breaker, now)).toBe(now);
    const lost = enterBreaker(breaker, now);
    expect(breakerReadyAt(breaker, now)).toBe(now + 5000);
    expect(enterBreaker(breaker, now + 4999)).toBe(0);
    expect(breakerReadyAt(breaker, now + 5000)).toBe(now + 5000);
    expect(enterBreaker(breaker, now + 5000)).toBe(lost);
    expect(enterBreaker(breaker, now + 5000)).toBe(0);
  });

  test("a probe that ends later still closes it", () => {
    const breaker = opened();
    const slow = enterBreaker(breaker, T0 + 5000);
    enterBreaker(breaker, T0 + 12_000);
    leaveBreaker(breaker, T0 + 25_000, slow, "success", 20_000, MIDDLE);
    expect(breakerState(breaker, T0 + 25_000)).toBe("CLOSED");
  });
});

test("counts from before it opened do not count after it has closed", () => {
  const breaker = opened({ openMs: 100 });
  call(breaker, T0 + 100, "success");
  call(breaker, T0 + 100, "failure", 19);
  expect(breakerState(breaker, T0 + 100)).toBe("CLOSED");
  call(breaker, T0 + 100, "failure");
  expect(breakerState(breaker, T0 + 100)).toBe("OPEN");
});

describe("late outcomes", () => {
  test("failures that started before it opened neither re-open it nor count as probes", () => {
    const breaker = breakerOf();
    const late = Array.from({ length: 500 }, () => enterBreaker(breaker, T0));
    call(breaker, T0, "failure", 20);
    const probe = enterBreaker(breaker, T0 + 5000);
    for (const pass of late.slice(0, 250)) {
      leaveBreaker(breaker, T0 + 5000, pass, "failure", 5000, MIDDLE);
    }
    expect(breaker).toMatchObject({ state: "HALF_OPEN", openCount: 1, probes: 1 });
    leaveBreaker(breaker, T0 + 5001, probe, "success", 1, MIDDLE);
    for (const pass of late.slice(250)) {
      leaveBreaker(breaker, T0 + 5002, pass, "failure", 5000, MIDDLE);
    }
    expect(breakerState(breaker, T0 + 5002)).toBe("CLOSED");
  });

  test("late successes do not close it", () => {
    const breaker = breakerOf();
    const late = enterBreaker(breaker, T0);
    call(breaker, T0, "failure", 20);
    enterBreaker(breaker, T0 + 5000);
    leaveBreaker(breaker, T0 + 5000, late, "success", 5000, MIDDLE);
    leaveBreaker(breaker, T0 + 5000, 0, "success", 5000, MIDDLE);
    expect(breakerState(breaker, T0 + 5000)).toBe("HALF_OPEN");
  });
});

describe("a clock that goes backwards", () => {
  test("set back by an hour, it stays open for the remaining time, not for an hour", () => {
    const breaker = opened();
    breakerState(breaker, T0 + 1000);
    expect(openUntil(breaker, T0 - 3_600_000)).toBe(T0 - 3_600_000 + 4000);
    expect(enterBreaker(breaker, T0 - 3_600_000 + 3999)).toBe(0);
    expect(enterBreaker(breaker, T0 - 3_600_000 + 4000)).toBeGreaterThan(0);
    expect(breakerReadyAt(breaker, 0)).toBe(5000);
  });

  test("a late reading does not refuse calls again", () => {
    const breaker = opened();
    expect(breakerState(breaker, T0 + 5000)).toBe("HALF_OPEN");
    expect(breakerState(breaker, T0 + 4500)).toBe("HALF_OPEN");
  });
});

describe("a shared breaker", () => {
  test("takes over the columns of another node, and forgets its own passes", () => {
    const breaker = breakerOf();
    const mine = enterBreaker(breaker, T0);
    adoptBreaker(breaker, T0, { state: "OPEN", openUntil: T0 + 9000, openCount: 2 });
    expect(openUntil(breaker, T0)).toBe(T0 + 9000);
    leaveBreaker(breaker, T0, mine, "success", 1, MIDDLE);
    expect(breakerState(breaker, T0)).toBe("OPEN");
    call(breaker, T0 + 9000, "failure");
    expect(openUntil(breaker, T0 + 9000)).toBe(T0 + 9000 + 20_000);
  });

  test("keeps its passes and counts while the columns are unchanged", () => {
    const breaker = breakerOf();
    call(breaker, T0, "failure", 19);
    const { state, openUntil: until, openCount } = breaker;
    adoptBreaker(breaker, T0, { state, openUntil: until, openCount });
    call(breaker, T0, "failure", 1);
    expect(breakerState(breaker, T0)).toBe("OPEN");
    adoptBreaker(breaker, T0, { state: "CLOSED", openUntil: T0, openCount: 0 });
    expect(breakerState(breaker, T0)).toBe("CLOSED");
    adoptBreaker(breaker, T0, { state: "OPEN", openUntil: T0 + 1, openCount: 1 });
    adoptBreaker(breaker, T0, { state: "OPEN", openUntil: T0 + 1, openCount: 4 });
    expect(breaker.openCount).toBe(4);
    adoptBreaker(breaker, T0, { state: "OPEN", openUntil: T0 + 2, openCount: 4 });
    expect(openUntil(breaker, T0)).toBe(T0 + 2);
  });
});
