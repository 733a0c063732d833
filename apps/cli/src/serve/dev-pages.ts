/**
 * Answer: the pages of `redrive dev`, by path, as plain values. Whether a request may come in at all
 * is judged by the service's own front, which serves them.
 */

import { presetSchedules } from "./preset-schedules.ts";
import { PAGE_STYLE, presetsPage } from "./presets-page.ts";
import type { App } from "./running-service.ts";

export interface PageResponse {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const SAFE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
};

export const PAGES: Readonly<Record<string, () => PageResponse>> = {
  "/": () => ok("text/html", presetsPage(presetSchedules())),
  "/style.css": () => ok("text/css", PAGE_STYLE),
  "/policies.json": () =>
    ok("application/json", `${JSON.stringify({ policies: presetSchedules() })}\n`),
};

/** Adds the pages to a front, for everybody that it lets in. */
export function addPages(app: App): void {
  // `hide` is of the plugin that describes the API, which fastify's own types do not know.
  const options = { config: { scope: "public" } as const, schema: { hide: true } as object };
  for (const [path, answer] of Object.entries(PAGES)) {
    app.get(path, options, async (_, reply) => {
      const { headers, body } = answer();
      return reply.headers(headers).send(body);
    });
  }
}

function ok(type: string, body: string): PageResponse {
  return { headers: { ...SAFE_HEADERS, "content-type": `${type}; charset=utf-8` }, body };
}
