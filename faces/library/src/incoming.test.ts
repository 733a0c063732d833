/** Tests of incoming: what is called for a request knows who retries above it, and until when. */
import { describe, expect, test } from "vitest";
import { incoming } from "./incoming.ts";
import { retry } from "./retry.ts";
import { rejectionOf, START_AT, statusError, world } from "./world.testing.ts";

const FAST = { maxAttempts: 3, initialDelayMs: 1 } as const;

function failing() {
  const fn = () => {
    fn.calls++;
    throw statusError(503);
  };
  fn.calls = 0;
  return fn;
}

describe("a request from a retrying layer", () => {
  const headers = { "redrive-attempt": "1", "redrive-remaining-ms": "900" };

  test("makes calls inside yield, after any number of awaits", async () => {
    const { clock, random, onEvent, events } = world();
    const fn = failing();
    const served = incoming(
      headers,
      async () => {
        await clock.sleep(10);
        return retry(fn, { clock, random, onEvent, ...FAST });
      },
      clock,
    );
    await rejectionOf(clock.run(served));
    expect(fn.calls).toBe(1);
    expect(events[0]).toMatchObject({ type: "yield", to: "caller" });
  });

  test("makes calls inside end by its deadline", async () => {
    const { clock } = world();
    const served = incoming(headers, () => retry(({ deadlineAt }) => deadlineAt, { clock }), clock);
    expect(await served).toBe(START_AT + 900);
  });

  test("with no time left makes no call at all", async () => {
    const { clock } = world();
    const fn = failing();
    const late = { ...headers, "redrive-remaining-ms": "0" };
    const served = incoming(late, () => retry(fn, { clock }), clock);
    expect(await rejectionOf(served)).toMatchObject({ reason: "budget" });
    expect(fn.calls).toBe(0);
  });

  test("lets layers in process yield too, however deep", async () => {
    const { clock, random } = world();
    const fn = failing();
    const inner = ({ signal }: { signal: AbortSignal }) =>
      retry(fn, { clock, random, signal, ...FAST });
    const served = incoming(headers, () => retry(inner, { clock, random, ...FAST }), clock);
    await rejectionOf(clock.run(served));
    expect(fn.calls).toBe(1);
  });

  test("is of no concern outside of its scope", async () => {
    const { clock, random } = world();
    incoming(headers, () => undefined, clock);
    const fn = failing();
    await rejectionOf(clock.run(retry(fn, { clock, random, ...FAST })));
    expect(fn.calls).toBe(3);
  });
});

test("a request from nobody who retries leaves calls free to", async () => {
  const { clock, random } = world();
  const fn = failing();
  const served = incoming({}, () => retry(fn, { clock, random, ...FAST }), clock);
  await rejectionOf(clock.run(served));
  expect(fn.calls).toBe(3);
});

test("what the function returns or throws comes through", () => {
  expect(incoming({}, () => 5)).toBe(5);
  expect(() =>
    incoming({}, () => {
      throw new Error("own");
    }),
  ).toThrow("own");
});
