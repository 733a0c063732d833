/** Tests of the testing tools: scripts are followed exactly, to the millisecond. */
import { describe, expect, test } from "vitest";
import { retry } from "./call/retry.ts";
import { rejectionOf, START_AT, world } from "./call/world.testing.ts";
import { flaky, flakyFetch } from "./testing.ts";

describe("flaky", () => {
  test("follows its script and repeats the last step", async () => {
    const { clock } = world();
    const { fn, calledAt, contexts } = flaky(clock, [
      { throws: new Error("first"), afterMs: 10 },
      { returns: "then", afterMs: 5 },
    ]);
    const options = { clock, jitterType: "NONE" } as const;
    expect(await clock.run(retry(fn, options))).toBe("then");
    expect(await clock.run(retry(fn, options))).toBe("then");
    expect(calledAt.map((at) => at - START_AT)).toEqual([0, 110, 115]);
    expect(contexts.map(({ attempt }) => attempt)).toEqual([1, 2, 1]);
  });

  test("requires a script", () => {
    expect(() => flaky(world().clock, [])).toThrow("steps.length must be 1 to 1000000, got 0");
    expect(() => flakyFetch(world().clock, [])).toThrow("steps.length");
  });
});

describe("flakyFetch", () => {
  test("responds by its script and keeps the requests", async () => {
    const { clock } = world();
    const { fetch, requests, calledAt } = flakyFetch(clock, [
      { status: 503, headers: { "retry-after": "1" } },
      { status: 200, body: "hello", afterMs: 20 },
    ]);
    const first = await fetch("http://a.example/x", { method: "PUT", body: "data" });
    expect(first.status).toBe(503);
    expect(first.headers.get("retry-after")).toBe("1");
    const second = await clock.run(fetch("http://a.example/y"));
    expect(await second.text()).toBe("hello");
    expect(requests.map(({ method, url }) => `${method} ${url}`)).toEqual([
      "PUT http://a.example/x",
      "GET http://a.example/y",
    ]);
    expect(await requests[0]?.text()).toBe("data");
    expect(calledAt).toEqual([START_AT, START_AT]);
  });

  test("status 0 is a refused connection, as Node's fetch reports it", async () => {
    const { clock } = world();
    const { fetch } = flakyFetch(clock, [{ status: 0 }]);
    const error = await rejectionOf(fetch("http://a.example/"));
    expect(error).toBeInstanceOf(TypeError);
    expect(error).toMatchObject({ message: "fetch failed", cause: { code: "ECONNREFUSED" } });
  });
});
