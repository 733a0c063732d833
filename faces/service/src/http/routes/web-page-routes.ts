/**
 * Web page routes: serve a folder of built web pages under `/ui/`. Each file gets its own route
 * when the app is created, so that no request can name a path outside of the folder.
 * `simulator.html` is also served as `/ui/simulator`. `/` leads to
 * `/ui/`. Files with a content hash in their name are
 * cached forever.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { serviceError } from "../../model/errors.ts";
import {
  REVALIDATE,
  type StaticContent,
  sendStatic,
  staticContent,
} from "../response/static-content.ts";

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

/** Allows only our own origin: no inline script or style, no other origin, no frame. */
const CONTENT_POLICY =
  "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; worker-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS = {
  "content-security-policy": CONTENT_POLICY,
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** The folder in which the build puts files with a content hash in their name. */
const HASHED = /^assets\//u;
const IMMUTABLE = "public, max-age=31536000, immutable";

const NOT_BUILT = "the pages are not built: run `npm run build` (or `npm start`), then restart";

const open = {
  config: { scope: "public", limit: "own" } as const,
  schema: { hide: true } as object,
};

/**
 * Adds the pages of a folder. Without an `index.html`, every path says that the pages are not
 * built.
 */
export function addWebPageRoutes(app: FastifyInstance, folder: string): void {
  app.get("/ui", open, async (_, reply) => reply.redirect("ui/", 308));
  // A relative address, so that it also works below the path of a proxy.
  app.get("/", open, async (_, reply) => reply.redirect("ui/", 302));
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

/**
 * File names relative to the folder, with forward slashes. Links are omitted: they may point
 * anywhere.
 */
function filesBelow(folder: string, prefix = ""): readonly string[] {
  return readdirSync(join(folder, prefix), { withFileTypes: true }).flatMap((entry) => {
    const name = `${prefix}${entry.name}`;
    if (entry.isDirectory()) return filesBelow(folder, `${name}/`);
    return entry.isFile() && Object.hasOwn(TYPES, extname(name)) ? [name] : [];
  });
}

function addFile(app: FastifyInstance, folder: string, name: string): void {
  let file: StaticContent | undefined;
  const respond = async (request: FastifyRequest, reply: FastifyReply) => {
    file ??= readFile(folder, name);
    return sendStatic(file, request, reply.headers(HEADERS));
  };
  for (const path of routePaths(name)) app.get(path, open, respond);
}

/** `index.html` is served as the folder itself, and each page also without its extension. */
function routePaths(name: string): readonly string[] {
  const path = `/ui/${encodeURI(name)}`;
  if (!name.endsWith(".html")) return [path];
  return [path, path.replace(/(?:index)?\.html$/u, "")];
}

/** Read once and cached: the pages are a few hundred kilobytes. */
function readFile(folder: string, name: string): StaticContent {
  const bytes = readFileSync(join(folder, name));
  return staticContent(name.endsWith(".html") ? markServed(bytes) : bytes, {
    type: TYPES[extname(name)] as string,
    cache: HASHED.test(name) ? IMMUTABLE : REVALIDATE,
  });
}

/** Tells the pages that a service serves them, so that they show more than on a static host. */
function markServed(html: Buffer): Buffer {
  return Buffer.from(html.toString("utf8").replace(/<html\b/u, "<html data-service"));
}
