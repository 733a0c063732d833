/**
 * Problem: a response that says what was wrong, as `application/problem+json` (RFC 9457), and the error
 * by which a handler says that it had no effect.
 */
import { assertRange, type ErrorCode, RedriveError, retryAfterSeconds } from "@redrive/core";
import type { PlainResponse } from "./interceptor.ts";
import type { NodeHeaderValue } from "./node-http.ts";
import { toResponse } from "./served-fetch.ts";

export interface Problem {
  readonly status: number;
  readonly code: ErrorCode;
  readonly title: string;
  /** For people: what was wrong and what to do. */
  readonly detail: string;
  readonly retryAfterSeconds?: number | undefined;
  /** The page that explains it. Default: that of Redrive. */
  readonly documentationUrl?: string | undefined;
  /** The handler did not run. */
  readonly notExecuted?: boolean | undefined;
}

/** Explains every code. */
const ERRORS_PAGE = "https://github.com/redrive/redrive/blob/main/docs/errors.md";

export function problemResponse(problem: Problem): PlainResponse {
  const { status, code, title, detail, retryAfterSeconds: seconds, notExecuted } = problem;
  const type = problem.documentationUrl ?? `${ERRORS_PAGE}#${code.toLowerCase()}`;
  const headers: [string, string][] = [
    ["Content-Type", "application/problem+json; charset=utf-8"],
    ["Cache-Control", "no-store"],
    ["Link", `<${type}>; rel="describedby"`],
  ];
  if (seconds !== undefined) headers.push(["Retry-After", String(seconds)]);
  const body = JSON.stringify({ type, title, status, code, detail });
  return { status, headers, body: new TextEncoder().encode(body), notExecuted };
}

export interface NotExecutedOptions {
  /** Status of the response. 400 to 599. Default: 503. */
  readonly status?: number | undefined;
  /** When the client should send the request again. 0 to 24 h. Default: 1 s. */
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/**
 * A handler throws it if it knows that it had no effect: its idempotency key is free again. It becomes a
 * 503 with `Retry-After`. It has what the frameworks read from an error, so that their own error handlers
 * write that response.
 */
export class NotExecuted extends RedriveError {
  override readonly name = "NotExecuted";
  /** Express and Hono read it. */
  override readonly status: number;
  /** Express and Fastify read them. */
  readonly headers: { readonly "Retry-After": NodeHeaderValue };
  readonly #retryAfterSeconds: number;

  constructor(
    message?: string,
    { status = 503, retryAfterMs = 1000, cause }: NotExecutedOptions = {},
  ) {
    super("NOT_EXECUTED", message ?? "the request was not executed", { cause });
    assertRange("status", status, 400, 599);
    assertRange("retryAfterMs", retryAfterMs, 0, 86_400_000);
    this.status = status;
    this.#retryAfterSeconds = retryAfterSeconds(retryAfterMs);
    const value = [String(this.#retryAfterSeconds)];
    NOT_EXECUTED_VALUES.add(value);
    this.headers = { "Retry-After": value };
  }

  /** Fastify reads it. */
  get statusCode(): number {
    return this.status;
  }

  /** Hono sends it. */
  getResponse(): Response {
    return toResponse(this.toAnswer());
  }

  /** The response where no framework writes one. */
  toAnswer(): PlainResponse {
    return problemResponse({
      status: this.status,
      code: "NOT_EXECUTED",
      title: "The request was not executed",
      detail: this.message,
      retryAfterSeconds: this.#retryAfterSeconds,
      notExecuted: true,
    });
  }
}

/**
 * The header values of these errors. Express and Fastify turn an error into a response where nobody can
 * see the error, but they pass the values of its headers on as they are. A value is recognized by its
 * identity, so that no other response can pass for one of these, such as that of another server which a
 * handler passes on.
 */
const NOT_EXECUTED_VALUES = /* @__PURE__ */ new WeakSet<object>();

/** Whether a header is that of a `NotExecuted`. */
export function isNotExecutedHeader(value: unknown): boolean {
  return NOT_EXECUTED_VALUES.has(Object(value));
}

/** The response for an error of a handler, where no framework writes one. */
export function answerToError(error: unknown): PlainResponse {
  if (error instanceof NotExecuted) return error.toAnswer();
  return problemResponse({
    status: 500,
    code: "INTERNAL",
    title: "Something went wrong",
    detail: "the log of the server has the error",
  });
}
