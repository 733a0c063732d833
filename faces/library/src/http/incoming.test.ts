/** Tests of incoming: calls made for a request know whether its caller retries, and until when. */
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
import { type HeadersLike, readHeader } from "./hop-headers.ts";
import { incoming, incomingLayer, outside } from "./incoming.ts";

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

  test("makes inner calls yield, after any number of awaits", async () => {
    const { clock, random, onEvent, events } = world();
    const fn = failing();
    const served = incoming(
      headers,
      async () => {
        await clock.sleep(10);
        return retry(fn, { clock, random, onEvent, ...FAST });
      },
      { clock, trust: "all" },
    );
    await rejectionOf(clock.run(served));
    expect(fn.calls).toBe(1);
    expect(events[0]).toMatchObject({ type: "yield", to: "caller" });
  });

  test("makes inner calls end by its deadline", async () => {
    const { clock } = world();
    const served = incoming(headers, () => retry(({ deadlineAt }) => deadlineAt, { clock }), {
      clock,
      trust: "all",
    });
    expect(await served).toBe(START_AT + 900);
  });

  test("with no time left makes no call at all", async () => {
    const { clock } = world();
    const fn = failing();
    const late = { ...headers, "redrive-remaining-ms": "0" };
    const served = incoming(late, () => retry(fn, { clock }), { clock, trust: "all" });
    expect(await rejectionOf(served)).toMatchObject({ reason: "budget" });
    expect(fn.calls).toBe(0);
  });

  test("makes nested layers in the process yield too", async () => {
    const { clock, random } = world();
    const fn = failing();
    const inner = ({ signal }: { signal: AbortSignal }) =>
      retry(fn, { clock, random, signal, ...FAST });
    const served = incoming(headers, () => retry(inner, { clock, random, ...FAST }), {
      clock,
      trust: "all",
    });
    await rejectionOf(clock.run(served));
    expect(fn.calls).toBe(1);
  });

  test("has no effect outside of its scope", async () => {
    const { clock, random } = world();
    await incoming(headers, async () => "done", { clock, trust: "all" });
    const fn = failing();
    await rejectionOf(clock.run(retry(fn, { clock, random, ...FAST })));
    expect(fn.calls).toBe(3);
  });
});

test("a request from a caller that does not retry lets calls retry", async () => {
  const { clock, random } = world();
  const fn = failing();
  const served = incoming({}, () => retry(fn, { clock, random, ...FAST }), {
    clock,
    trust: "all",
  });
  await rejectionOf(clock.run(served));
  expect(fn.calls).toBe(3);
});

test.each(["none", "all"] as const)(
  "resolves with what the function resolves with, and throws what it throws, with trust %s",
  async (trust) => {
    expect(await incoming({}, async () => 5, { trust })).toBe(5);
    expect(() =>
      incoming(
        {},
        () => {
          throw new Error("own");
        },
        { trust },
      ),
    ).toThrow("own");
  },
);

describe("a caller that is not trusted", () => {
  const headers = { "redrive-attempt": "1", "redrive-remaining-ms": "1", "x-mesh": "no" };

  test.each([
    ["by default", undefined],
    ["with none", "none"],
    ["by a function", (given: HeadersLike) => readHeader(given, "x-mesh") === "yes"],
  ] as const)("neither shortens calls nor keeps them from retrying: %s", async (_, trust) => {
    const { clock, random } = world();
    const fn = failing();
    const leftMs: number[] = [];
    const served = incoming(
      headers,
      () =>
        retry(
          ({ deadlineAt }) => {
            leftMs.push(deadlineAt - clock.now());
            return fn();
          },
          { clock, random, totalBudgetMs: 5000, ...FAST },
        ),
      { clock, trust },
    );
    await rejectionOf(clock.run(served));
    expect(fn.calls).toBe(3);
    expect(leftMs[0]).toBe(5000);
  });

  test("is told from one that is, by a function", async () => {
    const { clock } = world();
    const trust = (given: HeadersLike) => readHeader(given, "x-mesh") === "yes";
    const deadlineAt = await incoming(
      { ...headers, "redrive-remaining-ms": "700", "x-mesh": "yes" },
      () => retry((context) => context.deadlineAt, { clock }),
      { clock, trust },
    );
    expect(deadlineAt).toBe(START_AT + 700);
  });
});

test("with minRemainingMs, a trusted caller leaves at least that time", async () => {
  const { clock } = world();
  const deadline = (remaining: string) =>
    incoming(
      { "redrive-remaining-ms": remaining },
      () => retry(({ deadlineAt }) => deadlineAt, { clock }),
      { clock, trust: "all", minRemainingMs: 250 },
    );
  expect(await deadline("0")).toBe(START_AT + 250);
  expect(await deadline("900")).toBe(START_AT + 900);
});

test.each<[string, object, RegExp]>([
  ["trust", { trust: true }, /trust must be none, all or a function, got true/],
  ["minRemainingMs", { minRemainingMs: -1 }, /minRemainingMs must be 0 to 60000, got -1/],
])("a bad %s is refused", (_, options, message) => {
  expect(() => incoming({}, async () => 1, options)).toThrow(message);
  expect(() => incomingLayer(options)).toThrow(message);
});

test.each([
  ["nothing, as the next of a middleware", () => undefined],
  ["a value", () => 5],
  ["a promise of nothing, as a function that only calls next", async () => undefined],
])("a function that returns %s is an error that says what to do", async (_, fn) => {
  for (const trust of ["none", "all"] as const) {
    // Some throw at once, and some when their promise has settled.
    const serve = async () => await incoming({}, fn as never, { trust });
    await expect(serve()).rejects.toThrow(
      /incoming needs a function that returns a promise of the response .*use incomingLayer/,
    );
  }
});

test("the next of a middleware is a type error", () => {
  const next = () => {};
  // @ts-expect-error: it returns nothing.
  const sync = () => incoming({}, next);
  // @ts-expect-error: it returns a promise of nothing.
  const async = () => incoming({}, async () => next());
  expect([sync, async]).toHaveLength(2);
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
      const work = () => serve(start, here) as Promise<never>;
      await incoming(headers, work, { clock, trust: "all" });
    } catch {
      // One of the handlers throws.
    }
    await clock.advance(1000);
    served.resolve();
    await clock.run(work);
    return fn.calls;
  }

  test.each([
    ["returns no promise", (start: () => void) => start()],
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
    "by a function that %s, its background work has neither layer nor deadline",
    async (_, serve) => {
      expect(await background(serve)).toBe(3);
    },
  );

  test("calls that started before keep layer and deadline", async () => {
    const { clock, random, onEvent, events } = world();
    const deadlines: number[] = [];
    let call: Promise<unknown> = Promise.resolve();
    const fn = async ({ deadlineAt }: { deadlineAt: number }) => {
      await clock.sleep(100);
      deadlines.push(deadlineAt);
      throw statusError(503);
    };
    const handler = async () => {
      call = rejectionOf(retry(fn, { clock, random, onEvent, ...FAST }));
      return "done";
    };
    await incoming(headers, handler, { clock, trust: "all" });
    await clock.run(call);
    expect(deadlines).toEqual([START_AT + 900]);
    expect(events.map(({ type }) => type)).toEqual(["yield", "attempt-failed", "give-up"]);
  });

  test("a pool created during the request continues without its deadline", async () => {
    const { clock } = world();
    const asked = deferred();
    let poller: Promise<number> = Promise.resolve(0);
    const poll = async () => {
      await asked.promise;
      return retry(({ deadlineAt }) => deadlineAt - clock.now(), { clock, totalBudgetMs: 5000 });
    };
    const handler = async () => {
      poller = poll();
      return "done";
    };
    await incoming(headers, handler, { clock, trust: "all" });
    asked.resolve();
    expect(await poller).toBe(5000);
  });

  test("a thenable that is not a Promise, as a lazy query, runs once and inside the scope", async () => {
    const { clock } = world();
    let runs = 0;
    const query: PromiseLike<number> = {
      // biome-ignore lint/suspicious/noThenProperty: a lazy query is a thenable
      then(resolve, reject) {
        runs++;
        return retry(({ deadlineAt }) => deadlineAt, { clock }).then(resolve, reject);
      },
    };
    const served = incoming(headers, () => query, { clock, trust: "all" });
    expect(await served).toBe(START_AT + 900);
    expect(runs).toBe(1);
  });

  test("an unhandled rejection is still reported", async () => {
    const lost = new Error("lost");
    const { unhandled } = await reportsOf(async () => {
      void incoming(headers, () => Promise.reject(lost), { trust: "all" });
    });
    expect(unhandled).toEqual([lost]);
  });
});

test("outside of the request, work started during it has neither layer nor deadline", async () => {
  const { clock, random } = world();
  const headers = { "redrive-attempt": "1", "redrive-remaining-ms": "0" };
  const fn = failing();
  const started = () => retry(fn, { clock, random, ...FAST });
  const served = incoming(headers, () => outside(started), { clock, trust: "all" });
  await rejectionOf(clock.run(served));
  expect(fn.calls).toBe(3);
});
