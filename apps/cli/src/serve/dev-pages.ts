/**
 * Dev pages: the extra pages of `redrive dev`, by path. The service's HTTP server serves them and
 * applies its usual request checks.
 */

import { presetSchedules } from "./preset-schedules.ts";
import type { App } from "./running-service.ts";

export interface PageResponse {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const SAFE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
};

export const PAGES: Readonly<Record<string, () => PageResponse>> = {
  "/policies.json": () =>
    ok("application/json", `${JSON.stringify({ policies: presetSchedules() })}\n`),
};

/** Adds the pages to the HTTP server. They need no API key. */
export function addPages(app: App): void {
  // `hide` belongs to the OpenAPI plugin, so fastify's own types do not include it.
  const options = { config: { scope: "public" } as const, schema: { hide: true } as object };
  for (const [path, respond] of Object.entries(PAGES)) {
    app.get(path, options, async (_, reply) => {
      const { headers, body } = respond();
      return reply.headers(headers).send(body);
    });
  }
}

function ok(type: string, body: string): PageResponse {
  return { headers: { ...SAFE_HEADERS, "content-type": `${type}; charset=utf-8` }, body };
}
