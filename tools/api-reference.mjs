/**
 * `node tools/api-reference.mjs`: writes docs/library/api.md from the declarations that `tsc -b`
 * emits for `redrive`: each exported name, what its comment says, and its declaration. Read as text:
 * the compiler of TypeScript 7 has no interface to ask.
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

/** The package's doors, as its manifest names them. */
function entryPoints() {
  const manifest = JSON.parse(readFileSync(inRoot("faces", "library", "package.json"), "utf8"));
  return Object.entries(manifest.exports).map(([door, { types }]) => ({
    name: `redrive${door.slice(1)}`,
    file: join(dirname(LIBRARY), types),
  }));
}

/** The page, as it should be. */
export function apiReference() {
  const parts = entryPoints().map(({ name, file }) => spellEntryPoint(name, file));
  return `${HEAD}\n${parts.join("\n")}`;
}

const HEAD = `# API reference

Made from the types by \`node tools/api-reference.mjs\`; do not edit. What each feature is for is told
in the [guides](README.md).
`;

/**
 * @param {string} name
 * @param {string} file
 */
function spellEntryPoint(name, file) {
  const declarations = exportsOf(file).toSorted((a, b) => rankOf(a) - rankOf(b));
  const purpose = leadingDoc(readFileSync(file, "utf8"));
  return [`## \`${name}\`\n`, `${purpose}\n`, ...declarations.map(spellDeclaration)].join("\n");
}

/**
 * Functions first, then classes and values, then types; otherwise as the index lists them.
 * @param {Declaration} declaration
 */
function rankOf({ text }) {
  if (text.startsWith("function")) return 0;
  return /^(?:class|const)/u.test(text) ? 1 : 2;
}

/** @param {Declaration} declaration */
function spellDeclaration({ name, doc, text }) {
  const prose = doc === "" ? "" : `${doc}\n\n`;
  return `### ${name}\n\n${prose}\`\`\`typescript\n${text}\n\`\`\`\n`;
}

/**
 * What a declaration file exports, its own and what it passes on, in its own order.
 * @param {string} file
 * @returns {Declaration[]}
 */
export function exportsOf(file) {
  return statementsOf(readFileSync(file, "utf8")).flatMap(({ doc, text }) => {
    const list = /^export (?:type )?\{(?<names>[^}]*)\} from "(?<from>[^"]+)"/u.exec(text)?.groups;
    if (list?.["names"] !== undefined) return passedOn(file, list["names"], list["from"] ?? "");
    const name = nameOf(text);
    return name === undefined ? [] : [{ name, doc, text: bare(text) }];
  });
}

/**
 * @param {string} file
 * @param {string} names
 * @param {string} from
 */
function passedOn(file, names, from) {
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
 * A declaration without the words that only a declaration file needs, indented by two.
 * @param {string} text
 */
function bare(text) {
  const shown = text.replace(/^export (?:declare )?/u, "").replace(/^ +/gmu, halved);
  return shown
    .split("\n")
    .filter((line) => !/^\s*private /u.test(line))
    .join("\n");
}

/** @param {string} indent */
function halved(indent) {
  // A comment's lines begin one column further in than its first.
  return " ".repeat(Math.floor(indent.length / 4) * 2 + (indent.length % 4));
}

/**
 * The statements of a declaration file, each with the comment right above it.
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
 * At the outermost level a statement ends with a semicolon, or with the brace of an interface or
 * class; the brace of a type may be followed by more.
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
 * The words of a doc comment; any other comment says nothing.
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
