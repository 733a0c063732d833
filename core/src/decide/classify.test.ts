/** Tests of the classification of thrown values, with the fields of real clients' errors. */
import { createServer } from "node:http";
import { connect } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { classifyError } from "./classify.ts";

const marked = (marks: object, message = "x") => Object.assign(new Error(message), marks);

describe("fields of errors", () => {
  test.each([
    [{ status: 503 }, { kind: "status", status: 503 }],
    [{ statusCode: 429 }, { kind: "status", status: 429 }],
    [{ response: { status: 404 } }, { kind: "status", status: 404 }],
    [{ response: { statusCode: 404 } }, { kind: "status", status: 404 }],
    [{ $metadata: { httpStatusCode: 400 } }, { kind: "status", status: 400 }],
    [{ response: null, $metadata: null, $retryable: null, cause: null }, { kind: "thrown" }],
    [
      { name: "ThrottlingException", $metadata: { httpStatusCode: 400 } },
      { kind: "status", status: 400, verdict: "throttled" },
    ],
    [
      { name: "ProvisionedThroughputExceededException", $metadata: { httpStatusCode: 400 } },
      { kind: "status", status: 400, verdict: "throttled" },
    ],
    [
      { $metadata: { httpStatusCode: 400 }, $retryable: { throttling: true } },
      { kind: "status", status: 400, verdict: "throttled" },
    ],
    [
      { $metadata: { httpStatusCode: 400 }, $retryable: {} },
      { kind: "status", status: 400, verdict: "transient" },
    ],
    [{ code: "ERR_CANCELED", name: "CanceledError" }, { kind: "aborted" }],
    [{ code: "ATTEMPT_TIMEOUT" }, { kind: "error", errorClass: "timeout", sent: true }],
    [{ code: "ECONNREFUSED" }, { kind: "error", errorClass: "connect", sent: false }],
    [{ code: "UND_ERR_CONNECT_TIMEOUT" }, { kind: "error", errorClass: "connect", sent: false }],
    [{ code: "ENOTFOUND" }, { kind: "error", errorClass: "dns", sent: false }],
    [{ code: "EAI_AGAIN" }, { kind: "error", errorClass: "dns", sent: false }],
    [{ code: "ESERVFAIL" }, { kind: "error", errorClass: "dns", sent: false }],
    [
      { code: "UND_ERR_RES_EXCEEDED_MAX_SIZE" },
      { kind: "error", errorClass: "protocol", sent: true },
    ],
    [{ name: "HTTPParserError" }, { kind: "error", errorClass: "protocol", sent: true }],
    [{ code: "ECONNRESET" }, { kind: "error", errorClass: "reset", sent: true }],
    [{ code: "EPIPE" }, { kind: "error", errorClass: "reset", sent: true }],
    [{ code: "ETIMEDOUT" }, { kind: "error", errorClass: "timeout", sent: true }],
    [{ code: "UND_ERR_HEADERS_TIMEOUT" }, { kind: "error", errorClass: "timeout", sent: true }],
    [{ code: "CERT_HAS_EXPIRED" }, { kind: "error", errorClass: "tls", sent: false }],
    [{ code: "DEPTH_ZERO_SELF_SIGNED_CERT" }, { kind: "error", errorClass: "tls", sent: false }],
    [{ code: "ERR_TLS_CERT_ALTNAME_INVALID" }, { kind: "error", errorClass: "tls", sent: false }],
    [{ code: "HPE_INVALID_CONSTANT" }, { kind: "error", errorClass: "protocol", sent: true }],
    [{ cause: { code: "ECONNRESET" } }, { kind: "error", errorClass: "reset", sent: true }],
    [{ name: "TimeoutError" }, { kind: "error", errorClass: "timeout", sent: true }],
    [{ name: "AbortError" }, { kind: "aborted" }],
    [{ code: "PROTOCOL_CONNECTION_LOST" }, { kind: "error", errorClass: "reset", sent: true }],
    [{ name: "MongoServerSelectionError" }, { kind: "error", errorClass: "reset", sent: true }],
    [{ name: "MaxRetriesPerRequestError" }, { kind: "error", errorClass: "reset", sent: true }],
    [{ code: "ER_DUP_ENTRY", errno: 1062, sqlState: "23000" }, { kind: "fault" }],
    [{ code: "ER_BAD_NULL", errno: 1364, sqlState: "HY000" }, { kind: "fault" }],
    [{ code: "ER_LOCK_WAIT_TIMEOUT", errno: 1205, sqlState: "HY000" }, { kind: "thrown" }],
    [{ code: "SQLITE_CONSTRAINT_UNIQUE" }, { kind: "fault" }],
    [{ code: "ERR_SQLITE_ERROR", errcode: 2067 }, { kind: "fault" }],
    [{ code: "ERR_SQLITE_ERROR", errcode: 5 }, { kind: "thrown" }],
    [{ name: "MongoServerError", code: 11_000 }, { kind: "fault" }],
    [{ code: "EREQUEST", number: 2627 }, { kind: "fault" }],
    [{ code: "EREQUEST", number: 1205 }, { kind: "thrown" }],
    [{ number: 2627 }, { kind: "thrown" }],
    [
      { code: 14, details: "" },
      { kind: "grpc", code: "UNAVAILABLE" },
    ],
    [{ code: 1, details: "cancelled" }, { kind: "aborted" }],
    [{ code: 14 }, { kind: "thrown" }],
    [{ code: 99, details: "" }, { kind: "thrown" }],
    [{ code: "E_MY_OWN" }, { kind: "thrown" }],
    [{ code: "toString" }, { kind: "thrown" }],
    [{ status: 200 }, { kind: "thrown" }],
    [{ status: "503" }, { kind: "thrown" }],
    [{}, { kind: "thrown" }],
  ])("%o", (marks, expected) => {
    expect(classifyError(marked(marks))).toEqual(expected);
  });

  test("a status takes precedence over a code, and a code over a name", () => {
    expect(classifyError(marked({ status: 400, code: "ECONNRESET" }))).toMatchObject({
      status: 400,
    });
    expect(
      classifyError(marked({ name: "TypeError", cause: { code: "ECONNREFUSED" } })),
    ).toMatchObject({ errorClass: "connect" });
  });
});

describe("SQL states", () => {
  test.each(["08006", "53300", "57P01", "57P02", "57P03"])(
    "%s shows that the server is not available",
    (code) => {
      const reset = { kind: "error", errorClass: "reset", sent: true };
      expect(classifyError(marked({ code }))).toEqual(reset);
      expect(classifyError(marked({ code: "ER_X", errno: 1, sqlState: code }))).toEqual(reset);
    },
  );

  test("57014 is a timeout of the server", () => {
    expect(classifyError(marked({ code: "57014" }))).toMatchObject({ errorClass: "timeout" });
  });

  test.each(["40001", "40P01", "55P03", "XX000"])(
    "%s may be temporary, so it is retried as a plain error",
    (code) => {
      expect(classifyError(marked({ code }))).toEqual({ kind: "thrown" });
    },
  );

  test.each(["22P02", "23505", "23503", "28P01", "42601", "42P01", "42501"])(
    "%s fails on every attempt",
    (code) => {
      expect(classifyError(marked({ code }))).toEqual({ kind: "fault" });
      expect(classifyError(marked({ cause: { code } }))).toEqual({ kind: "fault" });
    },
  );

  test.each(["2350", "235050", "23p01", "E2350"])("%s is not an SQL state", (code) => {
    expect(classifyError(marked({ code }))).toEqual({ kind: "thrown" });
  });
});

describe("bugs in a program", () => {
  test.each([TypeError, ReferenceError, SyntaxError, RangeError])("%o is one", (Kind) => {
    expect(classifyError(new Kind("x is not a function"))).toEqual({ kind: "fault" });
  });

  test("an assertion error is one", () => {
    expect(classifyError(marked({ name: "AssertionError" }))).toEqual({ kind: "fault" });
  });

  test.each([
    "fetch failed",
    "Failed to fetch",
    "NetworkError when attempting to fetch resource.",
    "Load failed",
    "Network request failed",
    "Network connection lost.",
  ])("a TypeError that says %j is a network failure", (message) => {
    expect(classifyError(new TypeError(message))).toEqual({
      kind: "error",
      errorClass: "reset",
      sent: true,
    });
  });
});

describe("whatever is thrown", () => {
  test("values that are not errors are plain failures", () => {
    for (const value of [undefined, null, "text", 5, Symbol("x"), {}]) {
      expect(classifyError(value)).toEqual({ kind: "thrown" });
    }
  });

  test("an error whose getters throw is a plain failure", () => {
    const hostile = new Proxy(new Error("x"), {
      get() {
        throw new Error("no");
      },
    });
    expect(classifyError(hostile)).toEqual({ kind: "thrown" });
  });

  test("an abort that is not the caller's is a timeout of the client", () => {
    const timeout = { kind: "error", errorClass: "timeout", sent: true };
    for (const marks of [{ name: "AbortError" }, { code: "ERR_CANCELED" }]) {
      expect(classifyError(marked(marks), false)).toEqual(timeout);
      expect(classifyError(marked(marks), true)).toEqual({ kind: "aborted" });
    }
    expect(classifyError(marked({ code: 1, details: "cancelled" }), false).kind).toBe("aborted");
  });

  test("nothing makes it throw", () => {
    fc.assert(fc.property(fc.anything(), (value) => typeof classifyError(value).kind === "string"));
  });
});

describe("real errors of Node's fetch", () => {
  const freePort = () =>
    new Promise<number>((resolve) => {
      const server = createServer().listen(0, "127.0.0.1", () => {
        const { port } = server.address() as { port: number };
        server.close(() => resolve(port));
      });
    });

  test("a refused connection: nothing was sent", async () => {
    const error = await fetch(`http://127.0.0.1:${await freePort()}/`).catch((e: unknown) => e);
    expect(classifyError(error)).toEqual({ kind: "error", errorClass: "connect", sent: false });
  });

  test("a reset connection: something may have been sent", async () => {
    const server = createServer((request) => request.socket.destroy());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const error = await fetch(`http://127.0.0.1:${port}/`).catch((e: unknown) => e);
    expect(classifyError(error)).toEqual({ kind: "error", errorClass: "reset", sent: true });
    await new Promise((resolve) => server.close(resolve));
  });

  test("an aborted request", async () => {
    const error = await fetch("http://127.0.0.1:1/", { signal: AbortSignal.abort() }).catch(
      (e: unknown) => e,
    );
    expect(classifyError(error)).toEqual({ kind: "aborted" });
  });

  test("a plain socket's refusal", async () => {
    const port = await freePort();
    const error = await new Promise((resolve) => connect(port, "127.0.0.1").on("error", resolve));
    expect(classifyError(error)).toEqual({ kind: "error", errorClass: "connect", sent: false });
  });
});
