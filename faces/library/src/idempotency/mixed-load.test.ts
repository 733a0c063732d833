/**
 * Mixed load: hours of virtual time with clients on their defaults, two processes on one store that fails
 * now and then, and handlers that do everything that handlers do. No key ever charges twice.
 */
import { type Random, seededRandom, virtualClock } from "@redrive/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createFetch } from "../http/fetch.ts";
import { overloadLimiter } from "../http/overload-limiter.ts";
import { forFetch } from "../serve/for-fetch.ts";
import { NotExecuted } from "../serve/problem.ts";
import { idempotency } from "./idempotency.ts";
import type { IdempotencyStore } from "./idempotency-store.ts";
import { memoryStore } from "./memory-store.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;

const pick = <T>(random: Random, values: readonly T[]): T =>
  values[Math.floor(random.next() * values.length)] as T;

/** A store whose operations fail at random: some before they are carried out, and some after it. */
function flaky(store: IdempotencyStore, random: Random, isOut: () => boolean): IdempotencyStore {
  const wrap =
    <Values extends unknown[], T>(fn: (...values: Values) => Promise<T>) =>
    async (...values: Values): Promise<T> => {
      if (isOut() || random.next() < 0.05) throw new Error("no connection");
      const result = await fn(...values);
      if (random.next() < 0.05) throw new Error("the confirmation is lost");
      return result;
    };
  return {
    claim: wrap((key, claim) => store.claim(key, claim)),
    renew: wrap((key, owner, leaseMs) => store.renew(key, owner, leaseMs)),
    settle: wrap((key, owner, settlement) => store.settle(key, owner, settlement)),
    release: wrap((key, owner) => store.release(key, owner)),
    sweep: wrap((limit) => store.sweep(limit)),
  };
}

interface World {
  readonly charges: Map<string, number>;
  readonly answers: Map<string, Set<string>>;
  readonly statuses: Set<number>;
}

async function run(seed: number): Promise<World> {
  const random = seededRandom(seed);
  const clock = virtualClock(1_700_000_000_000);
  const memory = memoryStore({ clock });
  const charges = new Map<string, number>();
  const answers = new Map<string, Set<string>>();
  const statuses = new Set<number>();

  async function handle(request: Request, keys: ReturnType<typeof openKeys>): Promise<Response> {
    const key = request.headers.get("idempotency-key") ?? "";
    if (random.next() < 0.1) throw new NotExecuted("not now");
    if (random.next() < 0.05) {
      await keys.claimOf(request)?.release();
      return new Response("released", { status: 503 });
    }
    const charge = (charges.get(key) ?? 0) + 1;
    charges.set(key, charge);
    await clock.sleep(random.next() * pick(random, [0.1, 5, 40, 2000]) * SECOND);
    const status = pick(random, [201, 201, 201, 400, 429, 500, 503, 0, -1, -2]);
    if (status === 0) throw new Error("after the charge");
    if (status === -1) return await new Promise<never>(() => undefined);
    if (status === -2)
      return new Response(new ReadableStream({ pull: (one) => one.error("disk") }));
    return new Response(`charge ${charge} of ${key}`, { status });
  }

  function openKeys(store: IdempotencyStore) {
    return idempotency<Request>({ store, scope: () => "shop", clock });
  }

  /** A process. Its store is away for up to 15 s at a time, which is half of a lease. */
  function openProcess(): (request: Request) => Promise<Response> {
    let outUntil = 0;
    const isOut = () => {
      const now = clock.now();
      const isNext = now > outUntil + 20 * SECOND && random.next() < 0.03;
      if (isNext) outUntil = now + random.next() * 15 * SECOND;
      return now < outUntil;
    };
    const keys = openKeys(flaky(memory, random, isOut));
    const options = { max: 8, queue: 2, algorithm: "FIXED", clock, random } as const;
    const limiter = overloadLimiter<Request>(options);
    return forFetch(
      keys,
      forFetch(limiter, (request) => handle(request, keys)),
    );
  }

  const processes = [openProcess(), openProcess()];
  /** What the platform does with an error. */
  const http = createFetch(
    { clock, random },
    {
      fetch: async (input, init) =>
        await pick(
          random,
          processes,
        )(new Request(input, init)).catch(() => new Response("platform", { status: 500 })),
    },
  );

  async function buy(key: string): Promise<void> {
    await clock.sleep(random.next() * 30 * MINUTE);
    for (let times = 0; times < 6; times++) {
      const init = { method: "POST", headers: { "idempotency-key": key }, body: "{}" };
      const response = await http("https://shop.example/charges", init).catch(() => undefined);
      if (response !== undefined) {
        statuses.add(response.status);
        if (response.status === 201) answersOf(key).add(await response.text());
      }
      await clock.sleep(random.next() * 20 * MINUTE);
    }
  }

  function answersOf(key: string): Set<string> {
    const known = answers.get(key) ?? new Set();
    answers.set(key, known);
    return known;
  }

  await clock.run(Promise.all(Array.from({ length: 60 }, (_, n) => buy(`order-${n}`))));
  return { charges, answers, statuses };
}

test("in hours of mixed load no key charges twice, and every success tells of its charge", async () => {
  const statuses = new Set<number>();
  const property = fc.asyncProperty(fc.nat(), async (seed) => {
    const { charges, answers, statuses: seen } = await run(seed);
    expect([...charges].filter(([, count]) => count > 1)).toEqual([]);
    for (const [key, texts] of answers) expect([...texts]).toEqual([`charge 1 of ${key}`]);
    expect(answers.size).toBeGreaterThan(5);
    for (const status of seen) statuses.add(status);
  });
  await fc.assert(property, { numRuns: 4, endOnFailure: true });
  // The load has it all: successes, kept errors, refusals, and outcomes that nobody knows.
  expect([...statuses]).toEqual(expect.arrayContaining([201, 400, 409, 429, 500, 503]));
});
