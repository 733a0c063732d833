/**
 * Prepack: copies files from elsewhere in the checkout (the license, and the pages for the command
 * line) into a package, and refuses to pack if the build is missing. `npm pack` and `npm publish` run
 * it before creating the tarball. `postpack.mjs` removes the files.
 */
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { packedFiles } from "./packed-files.mjs";

const folder = process.cwd();

if (!existsSync(join(folder, "dist", ".tsbuildinfo"))) refuse("the package is");
for (const { from, to, isBuilt } of packedFiles(folder)) {
  if (!existsSync(from)) refuse(isBuilt ? "the pages are" : `${from} is`);
  cpSync(from, to, { recursive: true });
}

/** @param {string} what */
function refuse(what) {
  process.stderr.write(`${what} missing: run \`npm run build\` first.\n`);
  process.exit(1);
}
