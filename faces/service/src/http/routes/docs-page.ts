/** Docs page: renders the OpenAPI document as an HTML page without scripts. All text is escaped. */
import { isObject } from "@redrive/core";
import { problemCatalog } from "../response/problem.ts";

type Part = Readonly<Record<string, unknown>>;

const METHODS = ["get", "post", "put", "delete"];

export const docsStyle = `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
code, .path { font-family: ui-monospace, monospace }
h2 { margin-top: 2.5rem; text-transform: capitalize }
article { border-top: 1px solid #8884; padding: .5rem 0 }
h3 { margin: .5rem 0; font-size: 1rem }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700; text-transform: uppercase }
table { border-collapse: collapse } td { padding: .1rem 1rem .1rem 0; vertical-align: top }
`;

/** Returns a complete HTML document. */
export function docsPage(openapi: unknown): string {
  const document = partOf(openapi);
  const info = partOf(document["info"]);
  const sections = [...operationsByTag(partOf(document["paths"]))].map(
    ([tag, operations]) => `<section><h2>${escapeHtml(tag)}</h2>${operations.join("")}</section>`,
  );
  const title = escapeHtml(textOf(info["title"]));
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/docs/style.css"></head>
<body><h1>${title}</h1><p>${escapeHtml(textOf(info["description"]))}</p>
<p>Machine-readable: <a href="/openapi.json">openapi.json</a>.</p>
${sections.join("\n")}
<section><h2>problems</h2><table>${problemCatalog().map(renderProblem).join("")}</table></section></body></html>
`;
}

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
${rows.length === 0 ? "" : `<table>${rows.join("")}</table>`}<p>Responses: ${statuses}.</p></article>`;
}

function renderProblem({ code, status, title }: ReturnType<typeof problemCatalog>[number]): string {
  return `<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${escapeHtml(title)}</td></tr>`;
}

function bodyFields(operation: Part): Part {
  const content = partOf(partOf(operation["requestBody"])["content"]);
  return partOf(partOf(partOf(content["application/json"])["schema"])["properties"]);
}

function renderRow(name: string, schema: Part): string {
  const type = textOf(schema["type"]) || listOf(schema["enum"]).map(textOf).join(" | ");
  return `<tr><td><code>${escapeHtml(name)}</code></td><td>${escapeHtml(type)}</td><td>${escapeHtml(textOf(schema["description"]))}</td></tr>`;
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
