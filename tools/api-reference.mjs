/**
 * `node tools/api-reference.mjs`: writes docs/library/api.md from the declaration files that `tsc
 * -b` emits for `redrive`: each exported name, its comment and its declaration. It parses the files
 * as text, because TypeScript 7 has no compiler API.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";
import jsTokens from "js-tokens";
import { buildPackages } from "./setup/build.mjs";
import { inRoot } from "./setup/root.mjs";

export const API_PAGE = inRoot("docs", "library", "api.md");

/** @typedef {{ name: string, doc: string, text: string }} Declaration */

const LIBRARY = inRoot("faces", "library", "dist");
const CORE_INDEX = inRoot("core", "dist", "index.d.ts");

/** The entry points in the package's manifest. */
function entryPoints() {
  const manifest = JSON.parse(readFileSync(inRoot("faces", "library", "package.json"), "utf8"));
  return Object.entries(manifest.exports).map(([subpath, { types }]) => ({
    name: `redrive${subpath.slice(1)}`,
    file: join(dirname(LIBRARY), types),
  }));
}

/** Returns the text of the page. */
export function apiReference() {
  const parts = entryPoints().map(({ name, file }) => formatEntryPoint(name, file));
  return `${HEAD}\n${parts.join("\n")}`;
}

const HEAD = `# API reference

\`node tools/api-reference.mjs\` generates this page from the types; do not edit it. The
[guides](README.md) explain each feature.
`;

/**
 * @param {string} name
 * @param {string} file
 */
function formatEntryPoint(name, file) {
  const declarations = exportsOf(file).toSorted((a, b) => rankOf(a) - rankOf(b));
  const purpose = leadingDoc(readFileSync(file, "utf8"));
  return [`## \`${name}\`\n`, `${purpose}\n`, ...declarations.map(formatDeclaration)].join("\n");
}

/**
 * Functions come first, then classes and values, then types. Within a group, the order of the index is kept.
 * @param {Declaration} declaration
 */
function rankOf({ text }) {
  if (text.startsWith("function")) return 0;
  return /^(?:class|const)/u.test(text) ? 1 : 2;
}

/** @param {Declaration} declaration */
function formatDeclaration({ name, doc, text }) {
  const prose = doc === "" ? "" : `${doc}\n\n`;
  return `### ${name}\n\n${prose}\`\`\`typescript\n${text}\n\`\`\`\n`;
}

/**
 * Lists the exports of a declaration file, including re-exports, in the order of the file.
 * @param {string} file
 * @returns {Declaration[]}
 */
export function exportsOf(file) {
  return statementsOf(readFileSync(file, "utf8")).flatMap(({ doc, text }) => {
    const list = /^export (?:type )?\{(?<names>[^}]*)\} from "(?<from>[^"]+)"/u.exec(text)?.groups;
    if (list?.["names"] !== undefined) return reexports(file, list["names"], list["from"] ?? "");
    const name = nameOf(text);
    return name === undefined ? [] : [{ name, doc, text: withoutExportKeywords(text) }];
  });
}

/**
 * @param {string} file
 * @param {string} names
 * @param {string} from
 */
function reexports(file, names, from) {
  const found = new Map(exportsOf(targetOf(file, from)).map((entry) => [entry.name, entry]));
  return names
    .split(",")
    .map((name) => name.replace("type ", "").trim())
    .filter((name) => name !== "")
    .map((name) => {
      const declaration = found.get(name);
      if (declaration === undefined) throw new Error(`${from} declares no ${name}, for ${file}`);
      return declaration;
    });
}

/**
 * @param {string} file
 * @param {string} from
 */
function targetOf(file, from) {
  return from === "@redrive/core"
    ? CORE_INDEX
    : join(dirname(file), from.replace(/\.ts$/u, ".d.ts"));
}

/** @param {string} text */
function nameOf(text) {
  const pattern =
    /^export (?:declare )?(?:abstract )?(?:function|class|interface|type|const) (?<name>\w+)/u;
  return pattern.exec(text)?.groups?.["name"];
}

/**
 * Removes the keywords that only a declaration file needs, and indents by two spaces.
 * @param {string} text
 */
function withoutExportKeywords(text) {
  const shown = text.replace(/^export (?:declare )?/u, "").replace(/^ +/gmu, halveIndent);
  return shown
    .split("\n")
    .filter((line) => !/^\s*private /u.test(line))
    .join("\n");
}

/** @param {string} indent */
function halveIndent(indent) {
  // The lines of a comment are indented by one column more than its first line.
  return " ".repeat(Math.floor(indent.length / 4) * 2 + (indent.length % 4));
}

/**
 * Splits a declaration file into statements, each with the comment directly above it.
 * @param {string} source
 * @returns {{ doc: string, text: string }[]}
 */
export function statementsOf(source) {
  const statements = [];
  let doc = "";
  let text = "";
  let depth = 0;
  for (const { type, value } of jsTokens(source)) {
    if (text === "" && type === "MultiLineComment") doc = docOf(value);
    if (text === "" && (isBlank(type) || type.endsWith("Comment"))) continue;
    text += value;
    if ("{([".includes(value)) depth++;
    if ("})]".includes(value)) depth--;
    if (depth > 0 || !isEnd(value, text)) continue;
    statements.push({ doc, text: text.replace(/;$/u, "") });
    doc = "";
    text = "";
  }
  return statements;
}

/**
 * At the top level, a statement ends with a semicolon or with the closing brace of an interface or
 * class. The closing brace of a type alias may be followed by more.
 * @param {string} value
 * @param {string} text
 */
function isEnd(value, text) {
  if (value === ";") return true;
  return (
    value === "}" && /^(?:export )?(?:declare )?(?:abstract )?(?:interface|class) /u.test(text)
  );
}

/** @param {string} type */
function isBlank(type) {
  return type === "WhiteSpace" || type === "LineTerminatorSequence";
}

/**
 * The text of a doc comment. Empty for any other comment.
 * @param {string} comment
 */
function docOf(comment) {
  if (!comment.startsWith("/**")) return "";
  return comment
    .slice(3, -2)
    .split("\n")
    .map((line) => line.replace(/^\s*\* ?/u, "").trimEnd())
    .join("\n")
    .trim();
}

/** @param {string} source */
function leadingDoc(source) {
  return docOf(/^\/\*\*[\s\S]*?\*\//u.exec(source)?.[0] ?? "");
}

if (argv[1] !== undefined && pathToFileURL(argv[1]).href === import.meta.url) {
  await buildPackages();
  const page = apiReference();
  if (!existsSync(API_PAGE) || readFileSync(API_PAGE, "utf8") !== page)
    writeFileSync(API_PAGE, page);
}
