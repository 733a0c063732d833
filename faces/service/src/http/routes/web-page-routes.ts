/**
 * Pages: a folder of built web pages under `/ui/`. Every file in it gets a route of its own when the
 * front is made, so that no request can name a path outside, and `simulator.html` answers
 * `/ui/simulator` too. Files whose name holds a hash of their content may be kept for ever.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { serviceError } from "../../model/errors.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".map": "application/json; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".woff2": "font/woff2",
};

/** Only what comes from here: no inline script or style, no other origin, no frame. */
const CONTENT_POLICY =
  "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; worker-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS = {
  "content-security-policy": CONTENT_POLICY,
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** Where the builder puts files that are named after their content. */
const HASHED = /^assets\//u;
const IMMUTABLE = "public, max-age=31536000, immutable";
/** Asked again every time, and answered with 304 while nothing changed. */
const REVALIDATE = "no-cache";

const NOT_BUILT =
  "the pages are not built: run `npm run build` (or `npm start`), then start this again";

const open = {
  config: { scope: "public", limit: "own" } as const,
  schema: { hide: true } as object,
};

/** Adds the pages of a folder to a front; without an `index.html` in it, a sentence that says so. */
export function addWebPageRoutes(app: FastifyInstance, folder: string): void {
  app.get("/ui", open, async (_, reply) => reply.redirect("ui/", 308));
  if (!existsSync(join(folder, "index.html"))) {
    for (const path of ["/ui/", "/ui/*"]) {
      app.get(path, open, async () => {
        throw serviceError("NOT_FOUND", NOT_BUILT);
      });
    }
    return;
  }
  for (const name of filesBelow(folder)) addFile(app, folder, name);
}

/** Names from the folder on, with forward slashes. Links are left out: they may point anywhere. */
function filesBelow(folder: string, prefix = ""): readonly string[] {
  return readdirSync(join(folder, prefix), { withFileTypes: true }).flatMap((entry) => {
    const name = `${prefix}${entry.name}`;
    if (entry.isDirectory()) return filesBelow(folder, `${name}/`);
    return entry.isFile() && Object.hasOwn(TYPES, extname(name)) ? [name] : [];
  });
}

function addFile(app: FastifyInstance, folder: string, name: string): void {
  let file: File | undefined;
  const respond = async (request: FastifyRequest, reply: FastifyReply) => {
    file ??= readFile(folder, name);
    return send(file, request, reply);
  };
  for (const path of routePaths(name)) app.get(path, open, respond);
}

/** `index.html` is the folder itself, and a page answers without its ending too. */
function routePaths(name: string): readonly string[] {
  const path = `/ui/${encodeURI(name)}`;
  if (!name.endsWith(".html")) return [path];
  return [path, path.replace(/(?:index)?\.html$/u, "")];
}

interface File {
  readonly type: string;
  readonly cache: string;
  readonly etag: string;
  readonly body: Buffer;
  /** Undefined where it saves nothing. */
  readonly gzipped: Buffer | undefined;
}

/** Read once and kept: the pages are a few hundred kilobytes. */
function readFile(folder: string, name: string): File {
  const body = readFileSync(join(folder, name));
  const gzipped = gzipSync(body, { level: 9 });
  return {
    type: TYPES[extname(name)] as string,
    cache: HASHED.test(name) ? IMMUTABLE : REVALIDATE,
    etag: `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`,
    body,
    gzipped: gzipped.length < body.length * 0.9 ? gzipped : undefined,
  };
}

function send(file: File, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  reply.headers({
    ...HEADERS,
    "cache-control": file.cache,
    etag: file.etag,
    vary: "accept-encoding",
  });
  if (request.headers["if-none-match"] === file.etag) return reply.code(304).send();
  reply.type(file.type);
  const accepted = String(request.headers["accept-encoding"] ?? "");
  if (file.gzipped === undefined || !/\bgzip\b/u.test(accepted)) return reply.send(file.body);
  return reply.header("content-encoding", "gzip").send(file.gzipped);
}
