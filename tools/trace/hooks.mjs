/** Trace hooks: a module loader that records the entry of every function of our own built files. */
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Vite brings a parser, and it belongs to apps/web.
const require = createRequire(new URL("../../apps/web/package.json", import.meta.url));
/** @type {{ parseAst(source: string): unknown }} */
const { parseAst } = await import(pathToFileURL(require.resolve("vite")).href);

const OURS = /\/(core|faces\/[a-z]+)\/dist\/(.+)\.js$/u;
const FUNCTIONS = new Set(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"]);
const MAX_NAME = 60;

/** @type {import("node:module").LoadHook} */
export async function load(url, context, nextLoad) {
  const loaded = await nextLoad(url, context);
  const match = OURS.exec(url);
  if (match === null || loaded.source === undefined) return loaded;
  return { ...loaded, source: traced(String(loaded.source), `${match[1]}/src/${match[2]}.ts`) };
}

/**
 * The source with a call at the start of every function body.
 * @param {string} source
 * @param {string} path
 */
function traced(source, path) {
  /** @type {{ at: number, text: string }[]} */
  const inserts = [];
  walk(parseAst(source), (node) => {
    if (!FUNCTIONS.has(node.type)) return;
    const { body } = node;
    const names = [path, nameOf(source, node.start)].map((name) => JSON.stringify(name));
    const call = `globalThis.redriveTrace?.(${names})`;
    if (body.type === "BlockStatement") inserts.push({ at: body.start + 1, text: `${call};` });
    else inserts.push({ at: body.start, text: `(${call}, ` }, { at: body.end, text: ")" });
  });
  let result = source;
  for (const { at, text } of inserts.toSorted((a, b) => b.at - a.at)) {
    result = result.slice(0, at) + text + result.slice(at);
  }
  return result;
}

/**
 * The line in which a function starts.
 * @param {string} source
 * @param {number} at
 */
function nameOf(source, at) {
  const start = source.lastIndexOf("\n", at) + 1;
  return source.slice(start, source.indexOf("\n", at)).trim().slice(0, MAX_NAME);
}

/**
 * @param {any} node
 * @param {(node: any) => void} visit
 */
function walk(node, visit) {
  if (typeof node?.type === "string") visit(node);
  for (const child of Object.values(node ?? {})) {
    if (typeof child === "object" && child !== null) walk(child, visit);
  }
}
