/** Answers over a real socket: what is retried leaks nothing, what is given can be read. */
import { virtualClock } from "@redrive/core";
import { createFetch, destination } from "redrive";
import { afterEach, describe, expect, test } from "vitest";
import { type Responder, type ScriptedServer, script, scriptedServer } from "./scripted-server.ts";

const FAST = { initialDelayMs: 1, maxAttempts: 3 } as const;

const servers: ScriptedServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(respond: Responder): Promise<ScriptedServer> {
  const server = await scriptedServer(respond);
  servers.push(server);
  return server;
}

async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.unreachable("expected a rejection"),
    (error: unknown) => error,
  );
}

describe("answers that are retried", () => {
  test("do not hold their connections: 200 calls need a handful", async () => {
    const body = "x".repeat(20_000);
    const server = await serve((_, index) => ({ status: index % 2 === 0 ? 503 : 200, body }));
    const http = createFetch(FAST);
    for (let n = 0; n < 200; n++) {
      const response = await http(server.origin);
      expect(response.status).toBe(200);
      expect((await response.text()).length).toBe(body.length);
    }
    expect(server.received).toHaveLength(400);
    expect(server.open()).toBeLessThan(20);
  });
});

describe("the last answer", () => {
  test("can be read when attempts run out", async () => {
    const server = await serve(script({ status: 503, body: "down for the day" }));
    const response = await createFetch(FAST)(server.origin);
    expect(response.status).toBe(503);
    expect(await response.text()).toBe("down for the day");
    expect(server.received).toHaveLength(3);
  });

  test("can be read when the breaker or the budget refuses a retry", async () => {
    const server = await serve(script({ status: 503, body: "down" }));
    const guards = [{ breaker: { minCalls: 1 } }, { retryBudget: { ratio: 0, minPerSecond: 0 } }];
    for (const guard of guards) {
      const response = await createFetch(destination("d", { policy: FAST, ...guard }))(
        server.origin,
      );
      expect(await response.text()).toBe("down");
    }
    expect(server.received).toHaveLength(2);
  });
});

describe("Retry-After", () => {
  test("is waited out", async () => {
    const server = await serve(
      script({ status: 503, headers: { "retry-after": "1" } }, { status: 200 }),
    );
    const startedMs = performance.now();
    const response = await createFetch(FAST)(server.origin);
    expect(response.status).toBe(200);
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(1000);
  });
});

describe("abort", () => {
  test("during the wait ends the call with the caller's reason", async () => {
    const server = await serve(script({ status: 503 }));
    const controller = new AbortController();
    const reason = new Error("enough");
    const http = createFetch({ initialDelayMs: 20_000, totalBudgetMs: 60_000 });
    const redrive = {
      jitterType: "NONE",
      onEvent: (event: { type: string }) => {
        if (event.type === "retry") controller.abort(reason);
      },
    } as const;
    const call = http(server.origin, { signal: controller.signal, redrive });
    expect(await rejectionOf(call)).toBe(reason);
    expect(server.received).toHaveLength(1);
  });

  test("while the body is being read ends the reading", async () => {
    const server = await serve((_, __, response) => {
      response.writeHead(200).write("the first half");
      return undefined;
    });
    const controller = new AbortController();
    const response = await createFetch(FAST)(server.origin, { signal: controller.signal });
    const reader = response.body?.getReader();
    const first = await reader?.read();
    expect(new TextDecoder().decode(first?.value)).toBe("the first half");
    controller.abort(new Error("enough"));
    expect(await rejectionOf(Promise.resolve(reader?.read()))).toMatchObject({ message: "enough" });
    await server.closed();
  });

  test("of an attempt that is too slow closes its connection", async () => {
    const clock = virtualClock();
    const server = await serve((_, index) => {
      if (index > 0) return { status: 200 };
      void clock.advance(110);
      return undefined;
    });
    const response = await createFetch({ ...FAST, attemptTimeoutMs: 100, clock })(server.origin);
    expect(response.status).toBe(200);
    await server.closed();
  });
});

test("a signal of the attempt does not end the reading of a good answer", async () => {
  let finish: () => void = () => undefined;
  const server = await serve((_, __, response) => {
    response.writeHead(200).write("slow ");
    finish = () => response.end("but whole");
    return undefined;
  });
  const clock = virtualClock();
  const http = createFetch({ ...FAST, attemptTimeoutMs: 100, totalBudgetMs: 150, clock });
  const response = await http(server.origin);
  // Well past its own time: an attempt ends at the headers.
  await clock.advance(1000);
  finish();
  expect(await response.text()).toBe("slow but whole");
});

test("redirects are followed, or given as they are, as fetch does", async () => {
  const server = await serve(({ url }) =>
    url === "/old" ? { status: 302, headers: { location: "/new" } } : { status: 200, body: url },
  );
  const http = createFetch(FAST);
  expect(await (await http(`${server.origin}/old`)).text()).toBe("/new");
  const manual = await http(`${server.origin}/old`, { redirect: "manual" });
  expect(manual.status).toBe(302);
  expect(server.received).toHaveLength(3);
});

test("HEAD is retried like GET", async () => {
  const server = await serve(script({ status: 503 }, { status: 200 }));
  const response = await createFetch(FAST)(server.origin, { method: "HEAD" });
  expect(response.status).toBe(200);
  expect(server.received.map(({ method }) => method)).toEqual(["HEAD", "HEAD"]);
});

test("a connection that is cut is retried, and told when it stays so", async () => {
  const server = await serve((_, index, response) => {
    if (index > 0) return { status: 200 };
    response.destroy();
    return undefined;
  });
  expect((await createFetch(FAST)(server.origin)).status).toBe(200);
  const { origin } = server;
  await server.close();
  const error = await rejectionOf(createFetch(FAST)(origin));
  expect(error).toMatchObject({ reason: "attempts", attempts: [{}, {}, { verdict: "transient" }] });
});

test("the loser of a hedge is cut off on the wire", async () => {
  let isCut: (isUnanswered: boolean) => void = () => undefined;
  const cut = new Promise<boolean>((resolve) => {
    isCut = resolve;
  });
  const slow = await serve((_, __, response) => {
    response.on("close", () => isCut(!response.writableEnded));
    return undefined;
  });
  const quick = await serve(script({ status: 200, body: "quick" }));
  const hedge = { after: 20, endpoints: [quick.origin] };
  const http = createFetch(destination("d", { hedge }));
  const response = await http(`${slow.origin}/x?y=1`);
  expect(await response.text()).toBe("quick");
  expect(quick.received[0]?.url).toBe("/x?y=1");
  expect(await cut).toBe(true);
  expect(slow.received).toHaveLength(1);
});
