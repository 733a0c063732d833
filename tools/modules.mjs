/**
 * `npm run modules`: writes docs/modules.md, which lists each folder with its number of production
 * files, and each file with the first sentence of its opening comment.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { posix, relative, sep } from "node:path";
import { filesBelow } from "./setup/fingerprint.mjs";
import { inRoot, root } from "./setup/root.mjs";

const FILE = "docs/modules.md";

const INTRODUCTION = `# Modules

Every production file, with the first sentence of its opening comment. \`npm run modules\` writes this
page from the source. [ARCHITECTURE.md](../ARCHITECTURE.md) explains how the folders work together.
`;

/** Packages, in reading order. */
const PACKAGES = [
  { folder: "core/src", title: "core: makes decisions" },
  {
    folder: "faces/library/src",
    title: "faces/library: carries out decisions in the caller's process",
  },
  { folder: "faces/service/src", title: "faces/service: stores decisions and carries them out" },
  { folder: "faces/simulator/src", title: "faces/simulator: puts decisions on an event queue" },
  { folder: "apps/cli/src", title: "apps/cli: the command line" },
  { folder: "apps/web/src", title: "apps/web: the pages" },
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

/** @param {{ folder: string, title: string }} entry */
function describePackage({ folder, title }) {
  const paths = filesBelow(inRoot(folder))
    .map((path) => relative(root, path).split(sep).join("/"))
    .filter(isModule);
  const folders = [...new Set(paths.map((path) => posix.dirname(path)))].sort();
  const parts = folders.map((name) => {
    const files = paths.filter((path) => posix.dirname(path) === name).sort();
    const lines = files.map(
      (path) => `- \`${posix.basename(path)}\`: ${purposeOf(readFileSync(inRoot(path), "utf8"))}`,
    );
    const count = files.length === 1 ? "1 file" : `${files.length} files`;
    return `### \`${name}/\` (${count})\n\n${lines.join("\n")}\n`;
  });
  return `## ${title}\n\n${parts.join("\n")}`;
}

/** Returns the text of the page. */
export function modulesPage() {
  return `${INTRODUCTION}\n${PACKAGES.map(describePackage).join("\n")}`;
}

if (process.argv[1] === inRoot("tools/modules.mjs")) {
  writeFileSync(inRoot(FILE), modulesPage());
}
