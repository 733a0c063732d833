/**
 * Static content: a response body that is the same for every caller. It is built once, and all
 * responses share its bytes, so that unsent responses cost almost no memory.
 */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import type { FastifyReply, FastifyRequest } from "fastify";

export interface StaticContent {
  readonly type: string;
  /** The value of `cache-control`. */
  readonly cache: string;
  readonly etag: string;
  readonly body: Buffer;
  /** Undefined if compression saves nothing. */
  readonly gzipped: Buffer | undefined;
}

/** The browser asks every time and gets a 304 if nothing changed. */
export const REVALIDATE = "no-cache";

export function staticContent(
  body: Buffer,
  { type, cache }: Pick<StaticContent, "type" | "cache">,
): StaticContent {
  const gzipped = gzipSync(body, { level: 9 });
  return {
    type,
    cache,
    etag: `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`,
    body,
    gzipped: gzipped.length < body.length * 0.9 ? gzipped : undefined,
  };
}

/** Sends the content, compressed if the caller accepts it, or a 304 if the caller has it. */
export function sendStatic(
  content: StaticContent,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const { type, cache, etag, body, gzipped } = content;
  reply.headers({ "cache-control": cache, etag, vary: "accept-encoding" });
  if (hasTag(request.headers["if-none-match"], etag)) return reply.code(304).send();
  reply.type(type);
  if (gzipped === undefined || !acceptsGzip(request)) return reply.send(body);
  return reply.header("content-encoding", "gzip").send(gzipped);
}

/** `If-None-Match` is `*` or a list of tags. A proxy that recompresses makes a tag weak (`W/`). */
function hasTag(given: string | undefined, etag: string): boolean {
  if (given === undefined) return false;
  return given.split(",").some((tag) => ["*", etag].includes(tag.trim().replace(/^W\//u, "")));
}

function acceptsGzip({ headers }: FastifyRequest): boolean {
  const accepted = String(headers["accept-encoding"] ?? "");
  return /\bgzip\b/iu.test(accepted) && !/\bgzip\s*;\s*q=0(?:\.0*)?\s*(?:,|$)/iu.test(accepted);
}
