/** Problem: a response that says what was wrong, as `application/problem+json` (RFC 9457). */
import type { ErrorCode } from "@redrive/core";
import type { PlainResponse } from "./interceptor.ts";

export interface Problem {
  readonly status: number;
  readonly code: ErrorCode;
  readonly title: string;
  /** For people: what was wrong and what to do. */
  readonly detail: string;
  readonly retryAfterSeconds?: number | undefined;
  /** The page that explains it. Default: that of Redrive. */
  readonly documentationUrl?: string | undefined;
}

/** Explains every code. */
const ERRORS_PAGE = "https://github.com/redrive/redrive/blob/main/docs/errors.md";

export function problemResponse(problem: Problem): PlainResponse {
  const { status, code, title, detail, retryAfterSeconds } = problem;
  const type = problem.documentationUrl ?? `${ERRORS_PAGE}#${code.toLowerCase()}`;
  const headers: [string, string][] = [
    ["Content-Type", "application/problem+json; charset=utf-8"],
    ["Cache-Control", "no-store"],
    ["Link", `<${type}>; rel="describedby"`],
  ];
  if (retryAfterSeconds !== undefined) headers.push(["Retry-After", String(retryAfterSeconds)]);
  const body = JSON.stringify({ type, title, status, code, detail });
  return { status, headers, body: new TextEncoder().encode(body) };
}
