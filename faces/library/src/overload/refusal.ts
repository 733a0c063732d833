/** Refusal: the response to a request that an overloaded server does not serve. */
import { retryAfterSeconds } from "@redrive/core";
import type { PlainResponse } from "../serve/interceptor.ts";
import { problemResponse } from "../serve/problem.ts";
import type { ShedReason } from "./limiter-options.ts";

const AGAIN = "send the request again after Retry-After";

/** `waitMs` is when the server expects to have room. */
export function refusal(reason: ShedReason, waitMs: number): PlainResponse {
  const retry = { retryAfterSeconds: retryAfterSeconds(waitMs) };
  switch (reason) {
    case "caller":
      return problemResponse({
        status: 429,
        code: "TOO_MANY_REQUESTS",
        title: "Too many requests of this caller",
        detail: `this caller has as many requests in progress as it may have: ${AGAIN}`,
        ...retry,
      });
    case "deadline":
      return problemResponse({
        status: 504,
        code: "DEADLINE_PASSED",
        title: "The time of the request is over",
        detail:
          "the client does not wait for the response any more, so the request was not executed",
      });
    default:
      return problemResponse({
        status: 503,
        code: "SERVER_OVERLOADED",
        title: "The server is overloaded",
        detail: `the request was not executed: ${AGAIN}`,
        ...retry,
      });
  }
}
