/**
 * `npm run architecture`: writes the list of modules in ARCHITECTURE.md from the sentence that each
 * file opens with, so that the map and the territory cannot differ.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { relative, sep } from "node:path";
import { filesBelow } from "./setup/fingerprint.mjs";
import { inRoot, root } from "./setup/root.mjs";

const START = "<!-- modules: written by `npm run architecture` -->";
const END = "<!-- end of modules -->";

/** Rooms in the order a reader walks through them. */
const ROOMS = [
  { folder: "core/src", title: "core: decides" },
  { folder: "faces/library/src", title: "faces/library: awaits a decision" },
  { folder: "faces/service/src", title: "faces/service: writes a decision to a row" },
  { folder: "faces/simulator/src", title: "faces/simulator: pushes a decision on a queue" },
  { folder: "apps/cli/src", title: "apps/cli: what people run" },
  { folder: "apps/web/src", title: "apps/web: what people look at" },
];

/**
 * The first sentence of a file's opening comment.
 * @param {string} text
 */
export function purposeOf(text) {
  const [, comment = ""] = /^\s*\/\*\*(.*?)\*\//su.exec(text) ?? [];
  const prose = comment.replaceAll(/\s*\n\s*\* ?/gu, " ").trim();
  const [sentence = prose] = /^.*?(?<!e\.g|i\.e)[.!?](?=\s+[A-Z`]|$)/su.exec(prose) ?? [];
  return sentence.trim();
}

/** @param {string} path */
function isModule(path) {
  return /\.tsx?$/u.test(path) && !/\.(?:test|testing|d)\.tsx?$/u.test(path);
}

/** @param {{ folder: string, title: string }} room */
function describeRoom({ folder, title }) {
  const lines = filesBelow(inRoot(folder))
    .map((path) => relative(root, path).split(sep).join("/"))
    .filter(isModule)
    .sort()
    .map(
      (path) =>
        `- \`${path.slice(folder.length + 1)}\`: ${purposeOf(readFileSync(inRoot(path), "utf8"))}`,
    );
  return lines.length === 0 ? "" : `### ${title}\n\n${lines.join("\n")}\n`;
}

/** The document with its list of modules written anew. */
export function architectureNow() {
  const text = readFileSync(inRoot("ARCHITECTURE.md"), "utf8");
  const [before = "", rest = ""] = text.split(START);
  const [, after = ""] = rest.split(END);
  const rooms = ROOMS.map(describeRoom).filter((room) => room !== "");
  return `${before}${START}\n\n${rooms.join("\n")}\n${END}${after}`;
}

if (process.argv[1] === inRoot("tools/architecture.mjs")) {
  writeFileSync(inRoot("ARCHITECTURE.md"), architectureNow());
}
