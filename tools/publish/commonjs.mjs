/**
 * CommonJS: the folder `cjs` of a published package, for `require` and for TypeScript that compiles
 * to CommonJS. The code is one line per entry that requires the ES module (Node 20.19 and later can),
 * so a program that uses both loads the package once. The types are a copy of the declarations:
 * TypeScript derives the module format of a declaration from the nearest package.json.
 */
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";

/**
 * @param {string} folder of the staged package, with `dist` inside
 * @param {readonly string[]} entries modules below `dist`, without extension
 */
export function writeCommonJs(folder, entries) {
  const target = join(folder, "cjs");
  cpSync(join(folder, "dist"), target, { recursive: true, filter: isDeclarationOrFolder });
  writeFileSync(join(target, "package.json"), '{ "type": "commonjs" }\n');
  for (const entry of entries) {
    const path = join(target, `${entry}.js`);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, requireLine(entry));
  }
}

/** @param {string} entry */
function requireLine(entry) {
  const module = posix.relative(posix.dirname(`cjs/${entry}`), `dist/${entry}.js`);
  return `module.exports = require("${module}");\n`;
}

/** @param {string} path */
function isDeclarationOrFolder(path) {
  return path.endsWith(".d.ts") || !/\.[a-z]+$/u.test(path);
}
