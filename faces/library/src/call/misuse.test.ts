/** Tests of misuse: wrong arguments are refused with an error that has a code and quotes them. */
import { RedriveError } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { destination } from "../destination/destination.ts";
import { createFetch } from "../http/fetch.ts";
import { retry } from "./retry.ts";
import { rejectionOf } from "./world.testing.ts";

const anyRetry = retry as (...args: unknown[]) => Promise<unknown>;
const anyFetch = createFetch as (...args: unknown[]) => unknown;
const anyDestination = destination as (...args: unknown[]) => unknown;

async function refusalOf(call: Promise<unknown>): Promise<[string, string]> {
  const error = await rejectionOf(call);
  expect(error).toBeInstanceOf(RedriveError);
  const { code, message } = error as RedriveError;
  return [code, message];
}

describe("retry", () => {
  test.each([5, "x", null, true, [], () => 1])("refuses %j as options", async (options) => {
    // Options without fields must be known first: they are found by their fields.
    await retry(() => 1, {});
    const [code, message] = await refusalOf(anyRetry(() => 1, options));
    expect(code).toBe("INVALID_POLICY");
    const quoted = typeof options === "function" ? "function" : JSON.stringify(options);
    expect(message).toBe(`options must be an object, got ${quoted}`);
  });

  test.each([
    [5, "5"],
    [undefined, "undefined"],
    [null, "null"],
    ["fetch", '"fetch"'],
    [{ run: 1 }, '{"run":1}'],
  ])("refuses %j as the operation", async (fn, quoted) => {
    const refusal = ["INVALID_ARGUMENT", `fn must be a function, got ${quoted}`];
    expect(await refusalOf(anyRetry(fn))).toEqual(refusal);
    const run = destination("api").run as (fn: unknown) => Promise<unknown>;
    expect(await refusalOf(run.call(destination("api"), fn))).toEqual(refusal);
  });

  test("says what to pass instead of a promise", async () => {
    const fn = Promise.resolve(1);
    const message = "fn must be a function, got a promise: pass () => ...";
    expect(await refusalOf(anyRetry(fn))).toEqual(["INVALID_ARGUMENT", message]);
    const run = destination("api").run as (fn: unknown) => Promise<unknown>;
    expect(await refusalOf(run.call(destination("api"), fn))).toEqual([
      "INVALID_ARGUMENT",
      message,
    ]);
  });

  test.each(["key", "fallback", "request"])(
    "refuses %s, which needs a destination",
    async (name) => {
      const [code, message] = await refusalOf(anyRetry(() => 1, { [name]: "x" }));
      expect(code).toBe("INVALID_POLICY");
      expect(message).toContain(`unknown field "${name}"`);
    },
  );

  test("does not mistake an error of the operation for a wrong operation", async () => {
    const own = new TypeError("x is not a function");
    const fn = () => {
      throw own;
    };
    expect(await rejectionOf(retry(fn))).toBe(own);
  });
});

describe("destination", () => {
  test.each([
    ["", '""'],
    [undefined, "undefined"],
    [null, "null"],
    [5, "5"],
    [{}, "{}"],
  ])("refuses %j as its name", (name, quoted) => {
    const refused = () => anyDestination(name);
    expect(refused).toThrow(RedriveError);
    expect(refused).toThrow(`name must be a string, got ${quoted}`);
  });

  test.each([5, "x", null, [], true])("refuses %j as its options", (options) => {
    const refused = () => anyDestination("api", options);
    expect(refused).toThrow(RedriveError);
    expect(refused).toThrow(`options must be an object, got ${JSON.stringify(options)}`);
  });

  test("suggests the policy for a field that belongs there", () => {
    const refused = () => anyDestination("api", { maxAttempts: 3 });
    expect(refused).toThrow("maxAttempts must be in policy: { maxAttempts }, got 3");
    expect(refused).toThrow(expect.objectContaining({ code: "INVALID_DESTINATION" }));
    expect(() => anyDestination("api", { policy: { maxAttempts: 3 } })).not.toThrow();
  });
});

describe("createFetch", () => {
  const api = destination("api");

  test.each([
    [{ idempotency: "auto" }, 'unknown field "idempotency", did you mean "idempotencyKey"?'],
    [{ idempotencykey: "auto" }, 'unknown field "idempotencykey", did you mean "idempotencyKey"?'],
    [{ foo: 1 }, 'unknown field "foo"'],
    [{ idempotencyKey: true }, 'idempotencyKey must be "auto", got true'],
    [{ idempotencyKey: "AUTO" }, 'idempotencyKey must be "auto", got "AUTO"'],
    [{ idempotencyHeader: 1 }, "idempotencyHeader must be of type string, got 1"],
    [{ keyByHost: "yes" }, 'keyByHost must be true or false, got "yes"'],
    [{ headers: {} }, "headers must be true or false, got {}"],
    [{ fetch: {} }, "fetch must be of type function, got {}"],
    [{ ids: "x" }, 'ids must be of type function, got "x"'],
    [5, "options must be an object, got 5"],
    [null, "options must be an object, got null"],
  ])("refuses %j as its options", (options, message) => {
    for (const target of [api, {}]) {
      const refused = () => anyFetch(target, options);
      expect(refused).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT", message }));
    }
  });

  test("accepts options that are undefined", () => {
    expect(() => anyFetch(api, undefined)).not.toThrow();
    expect(() => anyFetch(api, { idempotencyKey: undefined, fetch: undefined })).not.toThrow();
  });

  test.each([
    ["payments", '"payments"'],
    [undefined, "undefined"],
    [null, "null"],
    [5, "5"],
  ])("refuses %j as its destination", (target, quoted) => {
    const refused = () => anyFetch(target);
    const message = `the destination or options must be an object, got ${quoted}`;
    expect(refused).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT", message }));
  });

  test("refuses wrong retry options before the first request", () => {
    const message = 'unknown field "maxAttemps", did you mean "maxAttempts"?';
    const refused = () => anyFetch({ maxAttemps: 3 });
    expect(refused).toThrow(expect.objectContaining({ code: "INVALID_POLICY", message }));
  });
});
