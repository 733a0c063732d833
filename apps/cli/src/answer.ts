/**
 * Answer: what `redrive dev` says to a request, as a plain value. Loopback is no wall against a
 * browser: a page elsewhere can have its own name point here, so foreign Host names are refused.
 */
import { page, STYLE } from "./page.ts";
import { presetSchedules } from "./schedules.ts";

export interface Question {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: { readonly host?: string | undefined };
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const OWN_HOST = /^(?:127\.0\.0\.1|localhost)(?::\d+)?$/u;

const SAFE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
};

const ROUTES: Readonly<Record<string, () => Answer>> = {
  "/": () => ok("text/html", page(presetSchedules())),
  "/style.css": () => ok("text/css", STYLE),
  "/healthz": () => json(200, { status: "ok" }),
  "/policies.json": () => json(200, { policies: presetSchedules() }),
};

export function answer(question: Question): Answer {
  if (!OWN_HOST.test(question.headers.host ?? "")) return problem(421, "unknown host");
  const path = (question.url ?? "/").split("?")[0] ?? "/";
  const route = Object.hasOwn(ROUTES, path) ? ROUTES[path] : undefined;
  if (route === undefined) return problem(404, "not found");
  if (question.method !== "GET" && question.method !== "HEAD") {
    const refusal = problem(405, "method not allowed");
    return { ...refusal, headers: { ...refusal.headers, allow: "GET, HEAD" } };
  }
  return route();
}

function ok(type: string, body: string): Answer {
  const headers = { ...SAFE_HEADERS, "content-type": `${type}; charset=utf-8` };
  return { status: 200, headers, body };
}

function json(status: number, value: unknown): Answer {
  return { ...ok("application/json", `${JSON.stringify(value)}\n`), status };
}

function problem(status: number, title: string): Answer {
  return json(status, { title, status });
}
