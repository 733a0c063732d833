/**
 * Prepack: run by `npm pack` and `npm publish` in the folder of a package, before the tarball is made.
 * Puts in what lies elsewhere in the clone (the license, and the pages for the command line), and
 * refuses to pack what is not built. `postpack.mjs` takes it out again.
 */
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { lentParts } from "./lent-parts.mjs";

const folder = process.cwd();

if (!existsSync(join(folder, "dist", ".tsbuildinfo"))) refuse("the package is");
for (const { from, to, isBuilt } of lentParts(folder)) {
  if (!existsSync(from)) refuse(isBuilt ? "the pages are" : `${from} is`);
  cpSync(from, to, { recursive: true });
}

/** @param {string} what */
function refuse(what) {
  process.stderr.write(`${what} not there: run \`npm run build\` first.\n`);
  process.exit(1);
}
