/** Docs page: renders the OpenAPI document as an HTML page without scripts. All text is escaped. */
import { isObject } from "@redrive/core";
import { problemCatalog } from "../response/problem.ts";

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

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}
