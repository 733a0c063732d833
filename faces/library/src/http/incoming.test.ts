/** Tests of incoming: what is called for a request knows who retries above it, and until when. */
import { describe, expect, test } from "vitest";
import { retry } from "../call/retry.ts";
import {
  deferred,
  rejectionOf,
  reportsOf,
  START_AT,
  statusError,
  world,
} from "../call/world.testing.ts";
import { incoming, outside } from "./incoming.ts";

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

describe("when the request has been served", () => {
  const headers = { "redrive-attempt": "1", "redrive-remaining-ms": "900" };
  type World = ReturnType<typeof world>;

  /** Serves a request that starts background work, lets its deadline pass and awaits that work. */
  async function background(serve: (start: () => void, { clock }: World) => unknown) {
    const here = world();
    const { clock, random } = here;
    const served = deferred();
    const fn = failing();
    let work: Promise<unknown> = Promise.resolve();
    const start = () => {
      work = served.promise.then(() => rejectionOf(retry(fn, { clock, random, ...FAST })));
    };
    try {
      await incoming(headers, () => serve(start, here), clock);
    } catch {
      // One of the handlers throws.
    }
    await clock.advance(1000);
    served.resolve();
    await clock.run(work);
    return fn.calls;
  }

  test.each([
    ["returns", (start: () => void) => start()],
    [
      "throws",
      (start: () => void) => {
        start();
        throw new Error("own");
      },
    ],
    [
      "resolves",
      async (start: () => void) => {
        await Promise.resolve();
        start();
      },
    ],
    [
      "rejects",
      async (start: () => void) => {
        await Promise.resolve();
        start();
        throw new Error("own");
      },
    ],
  ])(
    "by a function that %s, what it left running has neither layer nor deadline",
    async (_, serve) => {
      expect(await background(serve)).toBe(3);
    },
  );

  test("calls that began before keep layer and deadline", async () => {
    const { clock, random, onEvent, events } = world();
    const told: number[] = [];
    let call: Promise<unknown> = Promise.resolve();
    const fn = async ({ deadlineAt }: { deadlineAt: number }) => {
      await clock.sleep(100);
      told.push(deadlineAt);
      throw statusError(503);
    };
    const handler = () => {
      call = rejectionOf(retry(fn, { clock, random, onEvent, ...FAST }));
    };
    incoming(headers, handler, clock);
    await clock.run(call);
    expect(told).toEqual([START_AT + 900]);
    expect(events.map(({ type }) => type)).toEqual(["yield", "attempt-failed", "give-up"]);
  });

  test("a pool made during the request works on without its deadline", async () => {
    const { clock } = world();
    const asked = deferred();
    let poller: Promise<number> = Promise.resolve(0);
    const poll = async () => {
      await asked.promise;
      return retry(({ deadlineAt }) => deadlineAt - clock.now(), { clock, totalBudgetMs: 5000 });
    };
    const handler = async () => {
      poller = poll();
    };
    await incoming(headers, handler, clock);
    asked.resolve();
    expect(await poller).toBe(5000);
  });

  test("a thenable that is not a Promise is returned as it is, and not called", () => {
    let calls = 0;
    // biome-ignore lint/suspicious/noThenProperty: a lazy query is a thenable
    const query = { then: () => calls++ };
    expect(incoming(headers, () => query)).toBe(query);
    expect(calls).toBe(0);
  });

  test("a rejection that nobody handles is still reported", async () => {
    const lost = new Error("lost");
    const { unhandled } = await reportsOf(async () => {
      void incoming(headers, () => Promise.reject(lost));
    });
    expect(unhandled).toEqual([lost]);
  });
});

test("outside of the request, work started during it has neither layer nor deadline", async () => {
  const { clock, random } = world();
  const headers = { "redrive-attempt": "1", "redrive-remaining-ms": "0" };
  const fn = failing();
  const started = () => retry(fn, { clock, random, ...FAST });
  await rejectionOf(clock.run(incoming(headers, () => outside(started), clock)));
  expect(fn.calls).toBe(3);
});
