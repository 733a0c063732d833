/**
 * Locate: finds the code that a mutant changes by the declaration that it is in and the text of a
 * statement, in whatever file that is. So code can move, and be formatted, without its mutants.
 */
import { readFileSync } from "node:fs";
import { relative, sep } from "node:path";
import { parseSync } from "vite";
import { filesBelow } from "../setup/fingerprint.mjs";
import { inRoot, root } from "../setup/root.mjs";

/** Where the code of the mutants is. */
const ROOTS = ["core/src", "faces/service/src"];

/**
 * A top-level declaration (`settleOf`), or a member of a class (`CommitLoop.#fail`).
 * @typedef {{ file: string, name: string, start: number, end: number }} Declaration
 */

/** @type {readonly Declaration[] | undefined} */
let known;
/** @type {Map<string, string>} */
const texts = new Map();

/** @param {string} file from the root */
export function textOf(file) {
  const text = texts.get(file) ?? readFileSync(inRoot(file), "utf8");
  texts.set(file, text);
  return text;
}

/** All declarations of the production files. */
export function declarations() {
  known ??= ROOTS.flatMap((folder) => filesBelow(inRoot(folder)))
    .map((path) => relative(root, path).split(sep).join("/"))
    .filter((file) => file.endsWith(".ts") && !/\.(test|testing)\.ts$/u.test(file))
    .flatMap(declarationsIn);
  return known;
}

/** @param {string} file */
function declarationsIn(file) {
  const { program } = parseSync(file, textOf(file));
  return program.body.flatMap((/** @type {any} */ statement) => {
    const { start, end } = statement;
    const declared = statement.declaration ?? statement;
    const names = declared.declarations?.map((/** @type {any} */ one) => one.id.name) ?? [
      declared.id?.name ?? "",
    ];
    const own = names.map((/** @type {string} */ name) => ({ file, name, start, end }));
    return [...own, ...membersOf(file, declared)];
  });
}

/**
 * @param {string} file
 * @param {any} declared
 * @returns {Declaration[]}
 */
function membersOf(file, declared) {
  if (declared.type !== "ClassDeclaration") return [];
  return declared.body.body.map((/** @type {any} */ { key, start, end }) => {
    const member = key?.type === "PrivateIdentifier" ? `#${key.name}` : (key?.name ?? "");
    return { file, name: `${declared.id.name}.${member}`, start, end };
  });
}

/**
 * The place of a text in the declarations of that name. Throws unless there is exactly one.
 * @param {string} name of the declaration
 * @param {string} search white space in it fits any white space
 * @param {string} [path] a part of the path
 */
export function locate(name, search, path = "") {
  const places = declarations()
    .filter((one) => one.name === name && one.file.includes(path))
    .flatMap(({ file, start, end }) => matchesIn(file, start, end, search));
  const [place] = places;
  if (place !== undefined && places.length === 1) return place;
  const found = `occurs ${places.length} times`;
  throw new Error(`the text must occur once in ${name}, but ${found}: ${JSON.stringify(search)}`);
}

/**
 * @param {string} file
 * @param {number} start
 * @param {number} end
 * @param {string} search
 * @returns {{ file: string, start: number, end: number }[]}
 */
function matchesIn(file, start, end, search) {
  const part = textOf(file).slice(start, end);
  return [...part.matchAll(patternOf(search))].map(({ 0: text, index }) => {
    return { file, start: start + index, end: start + index + text.length };
  });
}

/** @param {string} search */
export function patternOf(search) {
  const words = search.trim().split(/\s+/u).map(escaped);
  return new RegExp(words.join("\\s+"), "gu");
}

/** @param {string} word */
function escaped(word) {
  return word.replace(/[.*+?^${}()|[\]\\/]/gu, "\\$&");
}
