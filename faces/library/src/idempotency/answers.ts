/** Answers: the responses that a server gives for a key instead of running the handler. */
import { quote } from "@redrive/core";
import type { PlainResponse } from "../serve/interceptor.ts";
import { type Problem, problemResponse } from "../serve/problem.ts";
import type { IdempotencyConfig } from "./idempotency-options.ts";

type Config = Pick<IdempotencyConfig, "documentationUrl" | "header">;

function answer({ documentationUrl }: Config, problem: Problem): PlainResponse {
  return problemResponse({ ...problem, documentationUrl });
}

/** How long a repetition should wait. The duration of the first request is not known. */
const RETRY_SECONDS = 1;

export function keyMissing(config: Config): PlainResponse {
  const { header } = config;
  return answer(config, {
    status: 400,
    code: "IDEMPOTENCY_KEY_REQUIRED",
    title: `${header} is missing`,
    detail: `this request must have the header ${header}, with a unique value that its repetitions keep`,
  });
}

export function keyInvalid(config: Config, value: string, wanted: string): PlainResponse {
  return answer(config, {
    status: 400,
    code: "IDEMPOTENCY_KEY_INVALID",
    title: `${config.header} is invalid`,
    detail: `${config.header} must be ${wanted}, got ${quote(value)}`,
  });
}

export function bodyTooLarge(config: Config, maxBytes: number): PlainResponse {
  return answer(config, {
    status: 413,
    code: "BODY_TOO_LARGE",
    title: "The body is too large",
    detail: `a request with an idempotency key may have a body of ${maxBytes} bytes`,
  });
}

export function requestBroken(config: Config): PlainResponse {
  return answer(config, {
    status: 400,
    code: "INVALID_REQUEST",
    title: "The request is incomplete",
    detail: "the connection was closed before the request was complete",
  });
}

export function keyReused(config: Config): PlainResponse {
  return answer(config, {
    status: 422,
    code: "IDEMPOTENCY_CONFLICT",
    title: `${config.header} was used with another request`,
    detail: "a key stands for one request: use a new key for a request with other content",
  });
}

export function inProgress(config: Config): PlainResponse {
  return answer(config, {
    status: 409,
    code: "IDEMPOTENCY_IN_PROGRESS",
    title: "A request with this key is in progress",
    detail: "send the request again later to get the response of the first one",
    retryAfterSeconds: RETRY_SECONDS,
  });
}

export function leaseLost(config: Config): PlainResponse {
  return answer(config, {
    status: 409,
    code: "IDEMPOTENCY_LEASE_LOST",
    title: "Another request has taken over this key",
    detail:
      "this request ran longer than its lease, and a repetition runs in its place: send the request again to get the response of that one",
    retryAfterSeconds: RETRY_SECONDS,
  });
}

export function responseNotStored(config: Config, status: number): PlainResponse {
  return answer(config, {
    status: 410,
    code: "IDEMPOTENCY_RESPONSE_NOT_STORED",
    title: "The response was too large to store",
    detail: `the first request with this key was executed with status ${status}; its response cannot be sent again`,
  });
}

export function storeUnavailable(config: Config): PlainResponse {
  return answer(config, {
    status: 503,
    code: "STORE_UNAVAILABLE",
    title: "The store of idempotency keys is not available",
    detail: "the request was not executed: send it again later with the same key",
    retryAfterSeconds: RETRY_SECONDS,
  });
}
