/**
 * Payments: what a team meets that wraps a charge on the defaults: functions that ignore their signal,
 * strangers with short deadlines, declined cards, drivers with errors of their own, and hints in every
 * place. One call must have one effect, and no caller may stop the others.
 */
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import axios from "axios";
import {
  type CallEvent,
  type Clock,
  createFetch,
  type DestinationDocument,
  destination,
  hedge,
  incoming,
  type RetryOptions,
  type RunOptions,
  retry,
} from "redrive";
import { consume } from "redrive/consume";
import { seededRandom, virtualClock } from "redrive/testing";
import { afterEach, describe, expect, test, vi } from "vitest";

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function listen(handler: RequestListener): Promise<string> {
  const server = createServer(handler);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A charge that takes `ms`, whatever its signal says, and how many of them have run at once. */
function slowCharges(clock: ReturnType<typeof virtualClock>, ms: number) {
  const seen = { charges: 0, running: 0, overlap: 0 };
  const charge = async () => {
    seen.running++;
    seen.overlap = Math.max(seen.overlap, seen.running);
    await clock.sleep(ms);
    seen.running--;
    seen.charges++;
    return `receipt ${seen.charges}`;
  };
  return { seen, charge };
}

describe("a charge that never reads its signal and takes longer than its timeout", () => {
  test("runs once, and its late success is the result", async () => {
    const clock = virtualClock();
    const { seen, charge } = slowCharges(clock, 11_000);
    const events: CallEvent[] = [];
    const onEvent = (event: CallEvent) => void events.push(event);
    expect(await clock.run(retry(charge, { clock, onEvent }))).toBe("receipt 1");
    await clock.advance(60_000);
    expect(seen).toMatchObject({ charges: 1, overlap: 1 });
    expect(events.map(({ type }) => type)).toContain("attempt-still-running");
    expect(events.at(-1)).toMatchObject({ type: "success", attempt: 1, durationMs: 11_000 });
  });

  test("runs once through a destination, too", async () => {
    const clock = virtualClock();
    const { seen, charge } = slowCharges(clock, 11_000);
    const payments = destination("payments", { clock, policy: "payment" });
    const options = { idempotencyKey: "order-1", attemptTimeoutMs: 10_000 };
    expect(await clock.run(payments.run(charge, options))).toBe("receipt 1");
    await clock.advance(60_000);
    expect(seen).toMatchObject({ charges: 1, overlap: 1 });
    expect(payments.stats()).toMatchObject({ successes: 1, failures: 0 });
  });

  test("is not repeated while it runs: the next attempt starts when it has failed", async () => {
    const clock = virtualClock();
    const random = seededRandom(1);
    const starts: number[] = [];
    const began = clock.now();
    const charge = async () => {
      starts.push(clock.now() - began);
      if (starts.length > 1) return "receipt";
      await clock.sleep(14_000);
      throw Object.assign(new Error("busy"), { status: 503 });
    };
    expect(await clock.run(retry(charge, { clock, random, totalBudgetMs: 60_000 }))).toBe(
      "receipt",
    );
    expect(starts).toHaveLength(2);
    expect(starts[1]).toBeGreaterThanOrEqual(14_000);
  });

  test("a late refusal is final, and a late Retry-After is respected", async () => {
    const clock = virtualClock();
    let calls = 0;
    const late = (fields: object) => async () => {
      calls++;
      await clock.sleep(12_000);
      throw Object.assign(new Error("late"), fields);
    };
    const declined = retry(late({ status: 402 }), { clock });
    await expect(clock.run(declined)).rejects.toMatchObject({ status: 402 });
    expect(calls).toBe(1);
    const starts: number[] = [];
    const busy = late({ status: 503, retryAfterMs: 20_000 });
    const options = { clock, maxAttempts: 2, totalBudgetMs: 100_000 };
    const call = retry(() => {
      starts.push(clock.now());
      return busy();
    }, options);
    await expect(clock.run(call)).rejects.toMatchObject({ code: "GAVE_UP" });
    const [first = 0, second = 0] = starts;
    expect(second - first).toBeGreaterThanOrEqual(12_000 + 20_000);
    expect(calls).toBe(3);
  });

  test("one that hangs for ever is called once, and the call ends with its total budget", async () => {
    const clock = virtualClock();
    let calls = 0;
    const began = clock.now();
    const hangs = () => {
      calls++;
      return new Promise<never>(() => undefined);
    };
    await expect(clock.run(retry(hangs, { clock }))).rejects.toMatchObject({ reason: "budget" });
    expect(calls).toBe(1);
    expect(clock.now() - began).toBeLessThanOrEqual(30_100);
  });

  test("one that reads its signal only then gets one that is aborted", async () => {
    const clock = virtualClock();
    let sent = 0;
    const charge = async (context: { readonly signal: AbortSignal }) => {
      if (sent === 0) await clock.sleep(11_000);
      context.signal.throwIfAborted();
      return ++sent;
    };
    const call = retry(charge, { clock, maxAttempts: 2 }).catch((error: Error) => error.message);
    await clock.run(call);
    expect(sent).toBe(0);
  });

  const NO_RETRIES = { retryBudget: { ratio: 0, minPerSecond: 0 } } as const;

  test.each<[string, DestinationDocument, RunOptions<string>]>([
    ["a POST without a key", {}, { method: "POST" }],
    ["a call that shouldRetry ends", {}, { shouldRetry: () => false }],
    ["an empty retry budget", NO_RETRIES, {}],
    ["a breaker that its timeout has opened", { breaker: { minCalls: 1 } }, {}],
    ["a destination without retries", { concurrency: { max: 8, maxRetries: 0 } }, {}],
    ["a fallback for a call that ended", { ...NO_RETRIES }, { fallback: () => "none" }],
  ])("runs once, and its late success is the result: %s", async (_, document, options) => {
    const clock = virtualClock();
    const { seen, charge } = slowCharges(clock, 11_000);
    const payments = destination("payments", { clock, ...document });
    expect(await clock.run(payments.run(charge, options))).toBe("receipt 1");
    await clock.advance(60_000);
    expect(seen).toMatchObject({ charges: 1, overlap: 1 });
  });

  test("in its last attempt, too: its late success is the result", async () => {
    const clock = virtualClock();
    const { seen, charge } = slowCharges(clock, 11_000);
    const fails = () => Promise.reject(Object.assign(new Error("busy"), { status: 503 }));
    const pay = ({ attempt }: { readonly attempt: number }) => (attempt < 5 ? fails() : charge());
    expect(await clock.run(retry(pay, { clock }))).toBe("receipt 1");
    expect(seen.charges).toBe(1);
  });

  test("nobody is told that a charge has failed that was made, in a slow hour behind a breaker", async () => {
    const clock = virtualClock();
    const { seen, charge } = slowCharges(clock, 11_000);
    const payments = destination("payments", { clock, breaker: {} });
    let paid = 0;
    const pay = () =>
      payments.run(charge).then(
        () => paid++,
        () => undefined,
      );
    const calls: Promise<unknown>[] = [];
    for (let n = 0; n < 200; n++) {
      calls.push(pay());
      await clock.advance(100);
    }
    await clock.run(Promise.all(calls));
    await clock.advance(60_000);
    expect(seen.charges).toBeGreaterThan(50);
    expect(paid).toBe(seen.charges);
  });

  test("a late abort of its own client is a timeout, because its caller has not aborted", async () => {
    const clock = virtualClock();
    let calls = 0;
    const charge = async (context: { readonly signal: AbortSignal }) => {
      if (++calls > 1) return "receipt";
      await clock.sleep(11_000);
      if (context.signal.aborted) throw Object.assign(new Error("x"), { code: "ERR_CANCELED" });
      return "not stopped";
    };
    expect(await clock.run(retry(charge, { clock }))).toBe("receipt");
  });

  test("one that has read its signal is repeated as before", async () => {
    const clock = virtualClock();
    let calls = 0;
    const charge = async ({ signal }: { readonly signal: AbortSignal }) => {
      calls++;
      if (signal.aborted || calls > 1) return calls;
      await clock.sleep(25_000);
      return -1;
    };
    expect(await clock.run(retry(charge, { clock }))).toBe(2);
  });
});

describe("a charge that never reads its signal, below other layers that pass theirs on", () => {
  type Layer = (fn: () => Promise<string>, signal: AbortSignal) => Promise<string>;

  test.each<[string, number, (clock: Clock) => Layer]>([
    ["retry", 10_000, (clock) => (fn, signal) => retry(fn, { clock, signal })],
    [
      "retry, with a shorter timeout outside",
      5000,
      (clock) => (fn, signal) => retry(fn, { clock, signal }),
    ],
    [
      "retry, with a longer timeout outside",
      20_000,
      (clock) => (fn, signal) => retry(fn, { clock, signal }),
    ],
    [
      "retry with a single attempt",
      20_000,
      (clock) => (fn, signal) => retry(fn, { clock, signal, maxAttempts: 1 }),
    ],
    [
      "retry that insists",
      5000,
      (clock) => (fn, signal) => retry(fn, { clock, signal, nested: "retry" }),
    ],
    [
      "a destination",
      5000,
      (clock) => {
        const payments = destination("payments", { clock, breaker: { minCalls: 1 } });
        return (fn, signal) => payments.run(fn, { signal });
      },
    ],
    [
      "two layers",
      5000,
      (clock) => (fn, signal) =>
        retry(({ signal: own }) => retry(fn, { clock, signal: own }), { clock, signal }),
    ],
    [
      "a layer with a signal of its own",
      5000,
      (clock) => (fn, signal) =>
        retry(
          ({ anySignal }) => retry(fn, { clock, signal: anySignal(new AbortController().signal) }),
          { clock, signal },
        ),
    ],
  ])("runs once, and its late success is the result: %s", async (_, attemptTimeoutMs, create) => {
    const clock = virtualClock();
    const { seen, charge } = slowCharges(clock, 11_000);
    const layer = create(clock);
    const call = retry(({ signal }) => layer(charge, signal), { clock, attemptTimeoutMs });
    expect(await clock.run(call)).toBe("receipt 1");
    await clock.advance(60_000);
    expect(seen).toMatchObject({ charges: 1, overlap: 1 });
    expect(clock.pending()).toBe(0);
  });

  test("a late refusal is final, and a late failure is repeated when it is known", async () => {
    const clock = virtualClock();
    const starts: number[] = [];
    const late = (status: number) => async () => {
      starts.push(clock.now());
      await clock.sleep(8000);
      throw Object.assign(new Error("late"), { status });
    };
    const options = { clock, attemptTimeoutMs: 5000, maxAttempts: 2, totalBudgetMs: 60_000 };
    const around = (fn: () => Promise<never>) =>
      clock.run(retry(({ signal }) => retry(fn, { clock, signal }), options));
    await expect(around(late(402))).rejects.toMatchObject({ status: 402 });
    expect(starts).toHaveLength(1);
    await expect(around(late(503))).rejects.toMatchObject({ code: "GAVE_UP", reason: "attempts" });
    expect(starts).toHaveLength(3);
    expect((starts[2] ?? 0) - (starts[1] ?? 0)).toBeGreaterThanOrEqual(8000);
  });

  test("one that hangs for ever is called once, and all layers end with the total budget", async () => {
    const clock = virtualClock();
    const began = clock.now();
    let calls = 0;
    const hangs = () => {
      calls++;
      return new Promise<never>(() => undefined);
    };
    const call = retry(({ signal }) => retry(hangs, { clock, signal }), { clock });
    await expect(clock.run(call)).rejects.toMatchObject({ code: "GAVE_UP" });
    expect(calls).toBe(1);
    expect(clock.now() - began).toBeLessThanOrEqual(30_100);
    await clock.advance(0);
    expect(clock.pending()).toBe(0);
  });

  test("an abort by the caller ends all layers at once", async () => {
    const clock = virtualClock();
    const controller = new AbortController();
    const { charge } = slowCharges(clock, 25_000);
    const { signal: left } = controller;
    const call = retry(({ signal }) => retry(charge, { clock, signal }), { clock, signal: left });
    const ended = call.catch((error: Error) => error.message);
    await clock.advance(12_000);
    controller.abort(new Error("the user left"));
    expect(await ended).toBe("the user left");
    // Only the charge itself is left.
    await clock.advance(0);
    expect(clock.pending()).toBe(1);
  });

  test("one that reads its signal is stopped by the timeout of the outer layer, as before", async () => {
    const clock = virtualClock();
    let calls = 0;
    const charge = ({ signal }: { readonly signal: AbortSignal }) =>
      ++calls === 1 ? clock.sleep(25_000, signal) : Promise.resolve();
    const options = { clock, attemptTimeoutMs: 5000 };
    await clock.run(retry(({ signal }) => retry(charge, { clock, signal }), options));
    expect(calls).toBe(2);
    await clock.advance(0);
    expect(clock.pending()).toBe(0);
  });

  test("a handler of messages that passes its signal on is waited for as well", async () => {
    const clock = virtualClock();
    const { seen, charge } = slowCharges(clock, 11_000);
    const consumer = consume((_, { signal }) => retry(charge, { clock, signal }), {
      clock,
      policy: { attemptTimeoutMs: 5000, maxAttempts: 3, totalBudgetMs: 600_000 },
    });
    expect(await clock.run(consumer.handle({ id: "m1", body: "" }))).toMatchObject({ kind: "ack" });
    expect(seen).toMatchObject({ charges: 1, overlap: 1 });
  });
});

describe("hedging", () => {
  const cases = [
    ["without a method", {}, false],
    ["GET", { method: "GET" }, true],
    ["HEAD", { method: "HEAD" }, true],
    ["PUT", { method: "PUT" }, true],
    ["DELETE", { method: "DELETE" }, true],
    ["QUERY", { method: "QUERY" }, true],
    ["POST", { method: "POST" }, false],
    ["PATCH", { method: "PATCH" }, false],
    ["POST with a key", { method: "POST", idempotencyKey: "k1" }, true],
    ["a key without a method", { idempotencyKey: "k1" }, true],
    ["an empty key", { idempotencyKey: "" }, false],
    ["idempotent: true", { idempotent: true }, true],
    [
      "idempotent: false with GET and a key",
      { idempotent: false, method: "GET", idempotencyKey: "k" },
      false,
    ],
  ] as const;

  test.each(cases)("%s through a destination", async (_, options, isHedged) => {
    const clock = virtualClock();
    const { seen, charge } = slowCharges(clock, 500);
    const payments = destination("payments", { clock, hedge: { after: 100 } });
    await clock.run(payments.run(charge, options));
    await clock.advance(5000);
    expect(seen.charges).toBe(isHedged ? 2 : 1);
  });

  test.each(cases)("%s with hedge()", async (_, options, isHedged) => {
    const clock = virtualClock();
    const { seen, charge } = slowCharges(clock, 500);
    const call = () => hedge(charge, { ...options, after: 100, clock });
    if (!isHedged) {
      expect(call).toThrow("a hedged call may take effect twice");
      expect(seen.charges).toBe(0);
      return;
    }
    await clock.run(call());
    await clock.advance(5000);
    expect(seen.charges).toBe(2);
  });

  test("a destination that declares its calls repeatable hedges all of them", async () => {
    const clock = virtualClock();
    const { seen, charge } = slowCharges(clock, 500);
    const reads = destination("reads", { clock, idempotent: true, hedge: { after: 100 } });
    await clock.run(reads.run(charge));
    expect(seen.running + seen.charges).toBe(2);
  });

  test("a call that is not hedged for this reason says so in an event", async () => {
    const clock = virtualClock();
    const events: CallEvent[] = [];
    const payments = destination("payments", {
      clock,
      hedge: { after: 100 },
      onEvent: (event) => void events.push(event),
    });
    await clock.run(payments.run(() => clock.sleep(500)));
    expect(events.map(({ type }) => type)).toEqual(["hedge-skipped", "success"]);
  });
});

describe("options that are changed after the first call", () => {
  async function attemptsWith(options: RetryOptions): Promise<number> {
    let attempts = 0;
    const fails = () => {
      attempts++;
      throw Object.assign(new Error("busy"), { status: 503 });
    };
    await retry(fails, options).catch(() => undefined);
    return attempts;
  }

  class Options {
    maxAttempts = 2;
    initialDelayMs = 0;
  }

  test.each([
    ["a literal", () => ({ maxAttempts: 2, initialDelayMs: 0 })],
    ["an object of a class", () => new Options()],
    ["an object without a prototype", () => Object.assign(Object.create(null), new Options())],
  ])("%s is read by value", async (_, create) => {
    const options = create();
    expect(await attemptsWith(options)).toBe(2);
    options.maxAttempts = 5;
    expect(await attemptsWith(options)).toBe(5);
    options.maxAttempts = -7;
    await expect(retry(() => 1, options)).rejects.toMatchObject({ code: "INVALID_POLICY" });
    options.maxAttempts = 3;
    expect(await attemptsWith(options)).toBe(3);
  });

  test("a list inside of them is read by value", async () => {
    const statuses = [503];
    const options = { maxAttempts: 3, initialDelayMs: 0, retryableStatusCodes: statuses };
    expect(await attemptsWith(options)).toBe(3);
    statuses[0] = 500;
    expect(await attemptsWith(options)).toBe(1);
  });

  test("a list that was changed says nothing about a later one with the same items", async () => {
    const options = (retryableStatusCodes: readonly number[]) => {
      return { maxAttempts: 4, initialDelayMs: 0, retryableStatusCodes };
    };
    const statuses = [503];
    expect(await attemptsWith(options(statuses))).toBe(4);
    statuses[0] = 500;
    expect(await attemptsWith(options([503]))).toBe(4);
  });

  test("the document of a destination is read when the destination is created", async () => {
    const policy = { maxAttempts: 2, initialDelayMs: 0, retryableStatusCodes: [503] };
    const shop = destination("shop", { policy, retryBudget: false });
    policy.maxAttempts = -7;
    policy.retryableStatusCodes[0] = 500;
    let attempts = 0;
    const fails = () => {
      attempts++;
      throw Object.assign(new Error("busy"), { status: 503 });
    };
    await shop.run(fails).catch(() => undefined);
    await shop.run(fails, { jitterType: "NONE" }).catch(() => undefined);
    expect(attempts).toBe(2 + 2);
  });

  test("overrides of a destination are read by value", async () => {
    const shop = destination("shop", { policy: { initialDelayMs: 0 }, retryBudget: false });
    const overrides = { maxAttempts: 2 };
    let attempts = 0;
    const fails = () => {
      attempts++;
      throw Object.assign(new Error("busy"), { status: 503 });
    };
    await shop.run(fails, overrides).catch(() => undefined);
    overrides.maxAttempts = 4;
    await shop.run(fails, overrides).catch(() => undefined);
    expect(attempts).toBe(2 + 4);
  });
});

describe("strangers and declined cards", () => {
  test("twenty requests with a deadline of 20 ms do not open the breaker of a healthy server", async () => {
    const clock = virtualClock();
    const payments = destination("payments", {
      clock,
      policy: "payment",
      breaker: {},
      concurrency: { algorithm: "AIMD" },
    });
    const charge = (key: string) =>
      payments.run(({ signal }) => clock.sleep(50, signal).then(() => "charged"), {
        idempotencyKey: key,
      });
    const limitBefore = payments.stats().concurrencyLimit;
    for (let index = 0; index < 40; index++) {
      const call = payments
        .run(({ signal }) => clock.sleep(50, signal), {
          idempotencyKey: `stranger-${index}`,
          deadlineAt: clock.now() + 20,
        })
        .catch((error: Error) => error);
      expect(await clock.run(call)).toMatchObject({ reason: "budget" });
    }
    const { breaker, concurrencyLimit, p50Ms } = payments.stats();
    expect({ breaker, concurrencyLimit, p50Ms }).toEqual({
      breaker: "CLOSED",
      concurrencyLimit: limitBefore,
      p50Ms: undefined,
    });
    expect(await clock.run(charge("order-1"))).toBe("charged");
  });

  test("an attempt with all of its own time still counts when it times out", async () => {
    const clock = virtualClock();
    const payments = destination("payments", { clock, policy: { maxAttempts: 1 }, breaker: {} });
    const hang = ({ signal }: { readonly signal: AbortSignal }) => clock.sleep(60_000, signal);
    const calls = Array.from({ length: 20 }, () => payments.run(hang).catch(() => undefined));
    await clock.run(Promise.all(calls));
    expect(payments.stats().breaker).toBe("OPEN");
  });

  test.each([
    ["a declined card", () => Object.assign(new Error("declined"), { name: "CardDeclined" })],
    ["a plain error", () => new Error("no seats left")],
    ["a duplicate key of pg", () => Object.assign(new Error("x"), { code: "23505" })],
    ["of mysql2", () => mysqlError("ER_DUP_ENTRY", 1062, "23000")],
    [
      "of MongoDB",
      () => Object.assign(new Error("E11000"), { name: "MongoServerError", code: 11000 }),
    ],
    ["of mssql", () => Object.assign(new Error("x"), { code: "EREQUEST", number: 2627 })],
    [
      "of better-sqlite3",
      () => Object.assign(new Error("x"), { code: "SQLITE_CONSTRAINT_UNIQUE" }),
    ],
    [
      "of node:sqlite",
      () => Object.assign(new Error("x"), { code: "ERR_SQLITE_ERROR", errcode: 2067 }),
    ],
  ])("25 times %s does not open the breaker", async (_, error) => {
    const clock = virtualClock();
    const shop = destination("shop", { clock, breaker: {}, retryBudget: false });
    for (let index = 0; index < 25; index++) {
      await clock.run(shop.run(() => Promise.reject(error())).catch(() => undefined));
    }
    expect(shop.stats().breaker).toBe("CLOSED");
  });

  test.each([
    ["a status", () => Object.assign(new Error("x"), { status: 503 })],
    ["a broken connection", () => Object.assign(new Error("x"), { code: "ECONNRESET" })],
    ["a database that restarts", () => Object.assign(new Error("x"), { code: "57P01" })],
    ["MySQL without connections left", () => mysqlError("ER_CON_COUNT_ERROR", 1040, "08004")],
  ])("25 times %s opens it", async (_, error) => {
    const clock = virtualClock();
    const shop = destination("shop", { clock, breaker: {}, policy: { maxAttempts: 1 } });
    for (let index = 0; index < 25; index++) {
      await clock.run(shop.run(() => Promise.reject(error())).catch(() => undefined));
    }
    expect(shop.stats().breaker).toBe("OPEN");
  });

  test("an error that the caller classifies as a failure counts", async () => {
    const clock = virtualClock();
    const shop = destination("shop", { clock, breaker: {}, policy: { maxAttempts: 1 } });
    const fail = () => Promise.reject(new Error("the branch is closed"));
    for (let index = 0; index < 25; index++) {
      await clock.run(shop.run(fail, { classify: () => "transient" }).catch(() => undefined));
    }
    expect(shop.stats().breaker).toBe("OPEN");
  });

  test.each([
    ["23000", 1062, "ER_DUP_ENTRY"],
    ["HY000", 1364, "ER_NO_DEFAULT_FOR_FIELD"],
    ["42S02", 1146, "ER_NO_SUCH_TABLE"],
  ])("MySQL's %s (%i %s) is not repeated", async (state, errno, code) => {
    expect(await attemptsOf(mysqlError(code, errno, state))).toBe(1);
  });

  test("a transaction that has failed before (25P02) is not repeated, a deadlock is", async () => {
    expect(await attemptsOf(Object.assign(new Error("x"), { code: "25P02" }))).toBe(1);
    expect(await attemptsOf(mysqlError("ER_LOCK_DEADLOCK", 1213, "40001"))).toBe(5);
    expect(
      await attemptsOf(Object.assign(new Error("x"), { code: "EREQUEST", number: 1205 })),
    ).toBe(5);
  });
});

function mysqlError(code: string, errno: number, sqlState: string): Error {
  return Object.assign(new Error(code), { code, errno, sqlState });
}

async function attemptsOf(error: Error): Promise<number> {
  const clock = virtualClock();
  let attempts = 0;
  const fails = () => {
    attempts++;
    return Promise.reject(error);
  };
  await clock.run(retry(fails, { clock }).catch(() => undefined));
  return attempts;
}

describe("time on the wire", () => {
  test("a server that works on one attempt stops when its client leaves after 300 ms", async () => {
    const remaining: number[] = [];
    const origin = await listen((request) => {
      remaining.push(Number(request.headers["redrive-remaining-ms"]));
    });
    const policy = { attemptTimeoutMs: 300, maxAttempts: 2, initialDelayMs: 0 };
    const http = createFetch(policy);
    await expect(http(origin)).rejects.toMatchObject({ code: "GAVE_UP" });
    expect(remaining).toHaveLength(2);
    for (const ms of remaining) expect(ms).toBeLessThanOrEqual(300);
  });

  test("axios with a timeout of its own is retried: it is not an abort by the caller", async () => {
    let requests = 0;
    const origin = await listen((_, response) => {
      requests++;
      if (requests > 1) response.end("paid");
    });
    const pay = () => axios.get<string>(origin, { signal: AbortSignal.timeout(50) });
    const { data } = await retry(pay, { initialDelayMs: 0 });
    expect(data).toBe("paid");
    expect(requests).toBe(2);
  });

  test("an abort by the caller stays an abort", async () => {
    const controller = new AbortController();
    let requests = 0;
    const origin = await listen(() => {
      requests++;
      controller.abort(new Error("the user left"));
    });
    const { signal } = controller;
    const pay = () => axios.get(origin, { signal });
    await expect(retry(pay, { signal, initialDelayMs: 0 })).rejects.toThrow("the user left");
    expect(requests).toBe(1);
  });
});

describe("responses", () => {
  test.each([304, 404, 409])("%i through createFetch is a result", async (status) => {
    const origin = await listen((_, response) => response.writeHead(status).end());
    const events: CallEvent[] = [];
    const shop = destination("shop", { onEvent: (event) => void events.push(event) });
    const response = await createFetch(shop)(origin);
    expect(response.status).toBe(status);
    expect(events).toMatchObject([{ type: "success", attempt: 1, status }]);
    expect(shop.stats()).toMatchObject({ successes: 1, failures: 0 });
  });

  test("501 and a response that the caller calls a failure are given up", async () => {
    const origin = await listen((request, response) => {
      response.writeHead(request.url === "/501" ? 501 : 404).end();
    });
    const events: CallEvent[] = [];
    const http = createFetch({ onEvent: (event) => void events.push(event) });
    await http(`${origin}/501`);
    await http(`${origin}/404`, { redrive: { classify: () => "terminal" } });
    expect(events.filter(({ type }) => type === "give-up")).toHaveLength(2);
  });

  test.each([
    [{ "Retry-After": "20" }],
    [{ "retry-after-ms": "20000" }],
    [{ "x-ms-retry-after-ms": "20000" }],
    [{ "x-amz-retry-after": "20000" }],
    [{ RateLimit: '"default";r=0;t=20' }],
    [{ "x-ratelimit-reset-requests": "20s", "x-ratelimit-remaining-requests": "0" }],
  ])("%o means the same to createFetch and to retry", async (headers) => {
    const origin = await listen((_, response) => response.writeHead(429, headers).end());
    const waits: number[] = [];
    const controller = new AbortController();
    const options = {
      jitterType: "NONE",
      signal: controller.signal,
      onEvent: (event: CallEvent) => {
        if (event.type !== "retry") return;
        waits.push(event.delayMs);
        controller.abort();
      },
    } as const;
    await createFetch({})(origin, { redrive: options }).catch(() => undefined);
    const again = new AbortController();
    await retry(() => axios.get(origin), {
      jitterType: "NONE",
      signal: again.signal,
      onEvent: (event) => {
        if (event.type !== "retry") return;
        waits.push(event.delayMs);
        again.abort();
      },
    }).catch(() => undefined);
    expect(waits).toEqual([20_000, 20_000]);
  });

  test.each(["x-should-retry", "stripe-should-retry"])("%s: false is obeyed", async (name) => {
    let requests = 0;
    const origin = await listen((_, response) => {
      requests++;
      response.writeHead(503, { [name]: "false" }).end();
    });
    await createFetch({ initialDelayMs: 0 })(origin);
    await retry(() => axios.get(origin), { initialDelayMs: 0 }).catch(() => undefined);
    expect(requests).toBe(2);
  });

  test.each([520, 521, 522, 523, 524, 529])("%i is retried by default", async (status) => {
    let requests = 0;
    const origin = await listen((_, response) => {
      requests++;
      response.writeHead(requests === 1 ? status : 200).end();
    });
    const verdicts: unknown[] = [];
    const onEvent = (event: CallEvent) => {
      if (event.type === "attempt-failed") verdicts.push(event.verdict);
    };
    const { status: last } = await createFetch({ initialDelayMs: 0, onEvent })(origin);
    expect(last).toBe(200);
    expect(verdicts).toEqual([status === 529 ? "throttled" : "transient"]);
  });

  test("QUERY is repeated", async () => {
    let requests = 0;
    const origin = await listen((_, response) => {
      requests++;
      response.writeHead(requests === 1 ? 503 : 200).end();
    });
    const { status } = await createFetch({ initialDelayMs: 0 })(origin, { method: "QUERY" });
    expect(status).toBe(200);
  });
});

describe("three layers around one call", () => {
  const POLICY = { maxAttempts: 3, initialDelayMs: 0 } as const;
  const down = () => Promise.reject(Object.assign(new Error("down"), { status: 503 }));

  test("context.anySignal passes the layer on: 3 calls", async () => {
    let calls = 0;
    const leaf = () => {
      calls++;
      return down();
    };
    const own = new AbortController();
    const top = retry(
      ({ anySignal }) =>
        retry(({ anySignal: inner }) => retry(leaf, { ...POLICY, signal: inner(own.signal) }), {
          ...POLICY,
          signal: anySignal(own.signal),
        }),
      POLICY,
    );
    await top.catch(() => undefined);
    expect(calls).toBe(3);
  });

  test("inside of a request that is served, no signal is needed: 3 calls", async () => {
    let calls = 0;
    const leaf = () => {
      calls++;
      return down();
    };
    await incoming({}, () =>
      retry(async () => {
        await null;
        return await retry(async () => {
          await null;
          return await retry(leaf, POLICY);
        }, POLICY);
      }, POLICY).catch(() => "down"),
    );
    expect(calls).toBe(3);
  });

  test("an attempt that has ended is no layer to what it has left behind", async () => {
    let calls = 0;
    const leaf = () => {
      calls++;
      return down();
    };
    let background: Promise<unknown> = Promise.resolve();
    let go: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    await incoming({}, () =>
      retry(() => {
        background = gate.then(() => retry(leaf, POLICY)).catch(() => undefined);
        return "done";
      }, POLICY),
    );
    go();
    await background;
    expect(calls).toBe(3);
  });
});

describe("a call without time", () => {
  const noTime = (retries: (fn: () => number) => Promise<number>) =>
    retries(() => 1).catch(({ message }: Error) => message);

  test("names its destination, and whose deadline it was", async () => {
    const clock = virtualClock();
    const payments = destination("payments", { clock });
    const deadlineAt = clock.now() - 20;
    expect(await noTime((fn) => payments.run(fn, { deadlineAt }))).toBe(
      "payments: gave up after 0 attempts (budget): the deadline of the call passed 20 ms ago",
    );
    const headers = { "redrive-remaining-ms": "0" };
    const message = await incoming(headers, () => noTime((fn) => payments.run(fn)), {
      trust: "all",
      clock,
    });
    expect(message).toBe(
      "payments: gave up after 0 attempts (budget): the deadline of the caller of this request passed 0 ms ago",
    );
  });
});

describe("the body of a response that is retried", () => {
  /** The connections that twenty calls need, each of which is answered 503 before it succeeds. */
  async function connectionsFor(bytes: number, headers = {}): Promise<number> {
    const sockets = new Set<unknown>();
    let requests = 0;
    const origin = await listen((request, response) => {
      sockets.add(request.socket);
      if (++requests % 2 === 0) response.end("paid");
      else response.writeHead(503, headers).end(Buffer.alloc(bytes));
    });
    const http = createFetch({ initialDelayMs: 5, jitterType: "NONE" });
    for (let n = 0; n < 20; n++) expect(await (await http(origin)).text()).toBe("paid");
    return sockets.size;
  }

  test("is read up to 128 KiB, so that the connection is kept", async () => {
    expect(await connectionsFor(100_000, { "content-length": 100_000 })).toBeLessThanOrEqual(3);
    expect(await connectionsFor(100_000)).toBeLessThanOrEqual(3);
  });

  test("is canceled if it is longer, which closes the connection", async () => {
    expect(await connectionsFor(1_000_000, { "content-length": 1_000_000 })).toBeGreaterThan(15);
    expect(await connectionsFor(1_000_000)).toBeGreaterThan(15);
  });
});

describe("a runtime without crypto and without AbortSignal.any, such as React Native", () => {
  test("fetches, makes keys, and ends with the caller's signal", async () => {
    vi.stubGlobal("crypto", undefined);
    const { any } = AbortSignal;
    Object.assign(AbortSignal, { any: undefined });
    try {
      const keys = new Set<unknown>();
      const origin = await listen((request, response) => {
        keys.add(request.headers["idempotency-key"]);
        response.writeHead(keys.size === 1 ? 503 : 200);
        if (request.url === "/hang") response.flushHeaders();
        else response.end();
      });
      const http = createFetch({ initialDelayMs: 0, maxAttempts: 2 }, { idempotencyKey: "auto" });
      const controller = new AbortController();
      const init = { method: "POST", signal: controller.signal };
      await http(origin, init);
      await http(origin, init);
      expect(keys.size).toBe(2);
      for (const key of keys) expect(key).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-/);
      const hanging = await http(`${origin}/hang`, init);
      controller.abort(new Error("the user left"));
      await expect(hanging.text()).rejects.toThrow(/the user left|aborted/);
    } finally {
      Object.assign(AbortSignal, { any });
      vi.unstubAllGlobals();
    }
  });
});

test("many calls with the signal of a shutdown cause no warning, and all of them end with it", async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  process.on("warning", onWarning);
  const controller = new AbortController();
  const { signal } = controller;
  const shop = destination("shop", { idempotent: true, hedge: { after: 60_000 } });
  const hang = () => new Promise<never>(() => undefined);
  const calls = Array.from({ length: 50 }, (_, n) =>
    n % 2 === 0 ? retry(hang, { signal }) : shop.run(hang, { signal }),
  );
  const ended = Promise.allSettled(calls);
  controller.abort(new Error("shutdown"));
  const reasons = (await ended).map((end) => end.status === "rejected" && end.reason.message);
  expect(new Set(reasons)).toEqual(new Set(["shutdown"]));
  // Node emits warnings in the next turn.
  await new Promise((resolve) => setImmediate(resolve));
  process.removeListener("warning", onWarning);
  expect(warnings).toEqual([]);
});

describe("keys with guards of their own", () => {
  const SHARDED = { concurrency: { algorithm: "FIXED", max: 1, queue: 10 } } as const;

  test("a shard that hangs takes no slot of the others", async () => {
    const clock = virtualClock();
    const shards = destination("shards", { ...SHARDED, clock, perKey: "guards" });
    const hanging = shards.run(({ signal }) => clock.sleep(9000, signal), { key: "a" });
    const other = shards.run(() => clock.now(), { key: "b" });
    const began = clock.now();
    expect(await clock.run(other)).toBe(began);
    expect(shards.stats().inFlight).toBe(1);
    await clock.run(hanging);
    expect(shards.stats()).toMatchObject({ inFlight: 0, successes: 2 });
  });

  test("by default keys share the limits and have breakers of their own", async () => {
    const clock = virtualClock();
    const shards = destination("shards", { ...SHARDED, clock });
    const hanging = shards.run(({ signal }) => clock.sleep(9000, signal), { key: "a" });
    const other = shards.run(() => clock.now(), { key: "b" });
    const began = clock.now();
    expect(await clock.run(other)).toBe(began + 9000);
    await hanging;
  });

  test("share one retry budget, and their breakers are saved and restored", async () => {
    const clock = virtualClock();
    const input = {
      clock,
      perKey: "guards",
      breaker: { minCalls: 1 },
      policy: { maxAttempts: 2, initialDelayMs: 1 },
      retryBudget: { ratio: 0, minPerSecond: 0.1 },
    } as const;
    const shards = destination("shards", input);
    const down = () => Promise.reject(Object.assign(new Error("down"), { status: 503 }));
    await clock.run(shards.run(down, { key: "a" }).catch(() => undefined));
    expect(shards.stats().keys).toEqual({ a: "OPEN" });
    expect(await clock.run(shards.run(() => "fine", { key: "b" }))).toBe("fine");
    const saved: unknown = JSON.parse(JSON.stringify(shards.save()));
    const after = destination("shards", { ...input, saved });
    expect(after.stats().keys).toEqual({ a: "OPEN" });
    const refused = after.run(() => 1, { key: "a" }).catch((error: Error) => error);
    expect(await clock.run(refused)).toMatchObject({ reason: "circuit-open" });
  });

  test("a wrong value is refused", () => {
    const wrong = { perKey: "all" } as object;
    expect(() => destination("shards", wrong)).toThrow(
      'perKey must be "breaker" or "guards", got "all"',
    );
  });
});
