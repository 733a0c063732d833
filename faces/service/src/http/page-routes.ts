/**
 * Page routes: serve the built web pages under `/ui/`, and the page of the API documentation. Each
 * file gets its own route when the app is created, so that no request can name a path outside of
 * the folder. `simulator.html` is also served as `/ui/simulator`. `/` leads to `/ui/`. Files with a
 * content hash in their name are cached forever.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { isObject } from "@redrive/core";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { serviceError } from "../model/errors.ts";
import { problemCatalog } from "./problem.ts";

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

// Docs page: renders the OpenAPI document as an HTML page without scripts. All text is escaped.

type Part = Readonly<Record<string, unknown>>;

const METHODS = ["get", "post", "put", "delete"];

/** The colors of the dashboard, which is another package. */
export const docsStyle = `:root {
  color-scheme: light dark;
  --paper: #f6f8fa; --card: #fff; --ink: #15202b; --soft: #465563; --line: #dbe2e8; --accent: #0b7285;
  background: var(--paper); color: var(--ink);
  font: 400 .9375rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #10161c; --card: #171f27; --ink: #e6ecf1; --soft: #b7c3ce; --line: #2a3640; --accent: #3bc9db;
  }
}
body { margin: 0 auto; max-width: 64rem; padding: 0 1rem 2rem; overflow-wrap: anywhere }
nav { border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: .75rem 0 }
nav strong { margin-right: .5rem }
a { color: var(--accent) }
code, .path { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .8125rem }
h1 { font-size: 1.5rem; margin: 1rem 0 .5rem }
h2 { font-size: 1.0625rem; margin: 2rem 0 .5rem; text-transform: capitalize }
h3 { font-size: .9375rem; margin: 0 0 .25rem }
p { color: var(--soft); margin: .25rem 0; max-width: 80ch }
article { background: var(--card); border: 1px solid var(--line); border-radius: 8px; margin: .5rem 0; padding: .75rem 1rem }
.method { color: var(--accent); display: inline-block; font-weight: 700; min-width: 4.5rem; text-transform: uppercase }
dl { display: grid; font-size: .8125rem; gap: .2rem 1rem; margin: .5rem 0 }
dl > div { display: grid; gap: 0 1rem; grid-template-columns: minmax(8rem, 14rem) minmax(0, 1fr) }
dd { margin: 0 } dd span { color: var(--soft) }
@media (max-width: 40rem) { dl > div { grid-template-columns: 1fr } }
`;

/** Returns a complete HTML document. `hasPages`: the web pages are served, so the page links there. */
export function docsPage(openapi: unknown, hasPages = false): string {
  const document = partOf(openapi);
  const info = partOf(document["info"]);
  const sections = [...operationsByTag(partOf(document["paths"]))].map(
    ([tag, operations]) => `<section><h2>${escapeHtml(tag)}</h2>${operations.join("")}</section>`,
  );
  const title = escapeHtml(textOf(info["title"]));
  const links = hasPages ? PAGE_LINKS : "";
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title} API</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="docs/style.css"></head>
<body><nav aria-label="Pages"><strong>${title}</strong> ${links}<a href="openapi.json">openapi.json</a></nav>
<main><h1>${title} API</h1><p>${escapeHtml(textOf(info["description"]))}</p>
${sections.join("\n")}
<section><h2>problems</h2><dl>${problemCatalog().map(renderProblem).join("")}</dl></section></main></body></html>
`;
}

/** Relative, so that they also work below the path of a proxy. */
const PAGE_LINKS = [
  ["ui/overview", "Overview"],
  ["ui/tasks", "Tasks"],
  ["ui/destinations", "Destinations"],
  ["ui/dead-letters", "Dead letters"],
  ["ui/simulator", "Simulator"],
  ["ui/docs", "API docs with search"],
]
  .map(([href, label]) => `<a href="${href}">${label}</a> `)
  .join("");

function operationsByTag(paths: Part): Map<string, string[]> {
  const byTag = new Map<string, string[]>();
  for (const [path, item] of Object.entries(paths)) {
    for (const method of METHODS) {
      const operation = partOf(item)[method];
      if (!isObject(operation)) continue;
      const tag = textOf(listOf(operation["tags"])[0]) || "other";
      byTag.set(tag, [...(byTag.get(tag) ?? []), renderOperation(method, path, operation)]);
    }
  }
  return byTag;
}

function renderOperation(method: string, path: string, operation: Part): string {
  const parameters = listOf(operation["parameters"]).map(partOf);
  const rows = [
    ...parameters.map((one) =>
      renderRow(textOf(one["name"]), { ...partOf(one["schema"]), ...one }),
    ),
    ...Object.entries(bodyFields(operation)).map(([name, schema]) =>
      renderRow(name, partOf(schema)),
    ),
  ];
  const statuses = Object.keys(partOf(operation["responses"])).map(escapeHtml).join(", ");
  return `<article><h3><span class="method">${escapeHtml(method)}</span> <span class="path">${escapeHtml(path)}</span></h3>
<p>${escapeHtml(textOf(operation["summary"]))}. ${escapeHtml(textOf(operation["description"]))}</p>
${rows.length === 0 ? "" : `<dl>${rows.join("")}</dl>`}<p>Responses: ${statuses}.</p></article>`;
}

function renderProblem({ code, status, title }: ReturnType<typeof problemCatalog>[number]): string {
  return `<div id="${code}"><dt><code>${code}</code></dt><dd><span>${status}</span> ${escapeHtml(title)}</dd></div>`;
}

function bodyFields(operation: Part): Part {
  const content = partOf(partOf(operation["requestBody"])["content"]);
  return partOf(partOf(partOf(content["application/json"])["schema"])["properties"]);
}

function renderRow(name: string, schema: Part): string {
  const type = textOf(schema["type"]) || listOf(schema["enum"]).map(textOf).join(" | ");
  const description = escapeHtml(textOf(schema["description"]));
  return `<div><dt><code>${escapeHtml(name)}</code></dt><dd><span>${escapeHtml(type)}</span> ${description}</dd></div>`;
}

function partOf(value: unknown): Part {
  return isObject(value) ? value : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}

// Static content: a response body that is the same for every caller. It is built once, and all
// responses share its bytes, so that unsent responses cost almost no memory.

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
