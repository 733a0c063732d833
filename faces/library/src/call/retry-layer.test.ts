/** Tests of layers in one process: one retries, the others yield to it, and all keep its deadline. */
import { describe, expect, test } from "vitest";
import { destination } from "../destination/destination.ts";
import type { AttemptContext, RetryOptions } from "./options.ts";
import { retry } from "./retry.ts";
import { rejectionOf, START_AT, statusError, untilAborted, world } from "./world.testing.ts";

const FAST = { initialDelayMs: 1, jitterType: "NONE" } as const;

/** Layers around a function that is down; `depth` of them, each with three attempts. */
function tower(depth: number, options: RetryOptions) {
  const seen = { calls: 0 };
  const layer = (level: number, signal?: AbortSignal): Promise<unknown> => {
    const own = { maxAttempts: 3, ...FAST, ...options, ...(signal && { signal }) };
    return retry((context) => {
      if (level > 1) return layer(level - 1, context.signal);
      seen.calls++;
      throw statusError(503);
    }, own);
  };
  return { seen, run: () => layer(depth) };
}

describe("a retry inside a retry", () => {
  test("makes one attempt, and reports that it yields", async () => {
    const { clock, random, onEvent, events } = world();
    const { seen, run } = tower(2, { clock, random, onEvent });
    await rejectionOf(clock.run(run()));
    expect(seen.calls).toBe(3);
    expect(events.filter(({ type }) => type === "yield")).toHaveLength(3);
    expect(events[0]).toEqual({ type: "yield", at: START_AT, to: "process" });
  });

  test.each([3, 4])("%i layers make three calls, not a power of three", async (depth) => {
    const { clock, random } = world();
    const { seen, run } = tower(depth, { clock, random });
    await rejectionOf(clock.run(run()));
    expect(seen.calls).toBe(3);
  });

  test('retries all the same with nested: "retry"', async () => {
    const { clock, random } = world();
    const { seen, run } = tower(3, { clock, random, nested: "retry" });
    await rejectionOf(clock.run(run()));
    expect(seen.calls).toBe(27);
  });

  test("throws its own error, so that the outer one judges what really happened", async () => {
    const { clock, random } = world();
    const own = statusError(404);
    let calls = 0;
    const call = retry(
      ({ signal }) =>
        retry(
          () => {
            calls++;
            throw own;
          },
          { clock, random, signal },
        ),
      { clock, random },
    );
    expect(await rejectionOf(clock.run(call))).toBe(own);
    expect(calls).toBe(1);
  });

  test("in a destination yields too", async () => {
    const { clock, random } = world();
    const shop = destination("shop", { clock, random, policy: { maxAttempts: 3, ...FAST } });
    let calls = 0;
    const inner = ({ signal }: AttemptContext) =>
      shop.run(
        () => {
          calls++;
          throw statusError(503);
        },
        { signal },
      );
    await rejectionOf(clock.run(retry(inner, { clock, random, maxAttempts: 3, ...FAST })));
    expect(calls).toBe(3);
  });

  test("is known while its attempt runs, and not after", async () => {
    const { clock, random } = world();
    let handed: AbortSignal | undefined;
    await retry(
      ({ signal }) => {
        handed = signal;
      },
      { clock, random },
    );
    let calls = 0;
    const fail = () => {
      calls++;
      throw statusError(503);
    };
    const options = { clock, random, signal: handed, maxAttempts: 2, ...FAST };
    await rejectionOf(clock.run(retry(fail, options)));
    expect(calls).toBe(2);
  });
});

describe("a layer that cannot retry", () => {
  const failing = () => {
    const fn = () => {
      fn.calls++;
      throw statusError(503);
    };
    fn.calls = 0;
    return fn;
  };

  test("because it makes one attempt leaves retrying to the one below", async () => {
    const { clock, random } = world();
    const fn = failing();
    const inner = { clock, random, maxAttempts: 3, ...FAST };
    const outer = { clock, random, maxAttempts: 1 };
    const call = retry(({ signal }) => retry(fn, { ...inner, signal }), outer);
    await rejectionOf(clock.run(call));
    expect(fn.calls).toBe(3);
  });

  test("because its call may not be repeated leaves retrying to the one below", async () => {
    const { clock, random } = world();
    const fn = failing();
    const inner = { clock, random, maxAttempts: 3, ...FAST };
    const call = retry(({ signal }) => retry(fn, { ...inner, signal }), {
      clock,
      random,
      method: "POST",
    });
    await rejectionOf(clock.run(call));
    expect(fn.calls).toBe(3);
  });
});

describe("the outer deadline", () => {
  test("caps the inner call, also one that retries by itself", async () => {
    const { clock, random } = world();
    const seen: number[] = [];
    const call = retry(
      ({ signal }) =>
        retry(
          (context) => {
            seen.push(context.deadlineAt);
            return untilAborted(context);
          },
          { clock, random, signal, nested: "retry", attemptTimeoutMs: 5000, totalBudgetMs: 60_000 },
        ),
      { clock, random, totalBudgetMs: 800, attemptTimeoutMs: 10_000, maxAttempts: 2 },
    );
    await rejectionOf(clock.run(call));
    expect(seen).toEqual([START_AT + 800]);
    expect(clock.now() - START_AT).toBeLessThanOrEqual(800 + 50);
  });

  test("is not widened by the inner call's own", async () => {
    const { clock } = world();
    const call = retry(
      ({ signal }) =>
        retry(({ deadlineAt }) => deadlineAt, {
          clock,
          signal,
          deadlineAt: START_AT + 90_000,
          totalBudgetMs: 90_000,
        }),
      { clock, totalBudgetMs: 700 },
    );
    expect(await call).toBe(START_AT + 700);
  });

  test("that is nearer in the inner call stays", async () => {
    const { clock } = world();
    const call = retry(
      ({ signal }) => retry(({ deadlineAt }) => deadlineAt, { clock, signal, totalBudgetMs: 200 }),
      { clock, totalBudgetMs: 700 },
    );
    expect(await call).toBe(START_AT + 200);
  });
});
