/**
 * Stage package: copies what a tarball contains into a folder of its own. Packing from there changes
 * nothing in the checkout, and the tarball contains no reference to a file that is missing in it.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { filesBelow } from "../setup/fingerprint.mjs";
import { inRoot } from "../setup/root.mjs";
import { writeCommonJs } from "./commonjs.mjs";
import { entryModules, publishedManifest } from "./published-manifest.mjs";

/** A relative import with the extension of its source, as `tsc` keeps it in declarations. */
const SOURCE_IMPORT = /(?<start>(?:from|import)\s*\(?\s*"\.{1,2}\/[^"]+)\.ts"/gu;

/** Folders besides `dist` that some packages contain. */
const OTHER_FOLDERS = ["bin", "scenarios"];

/**
 * Stages a built package. Throws if its build is missing.
 * @param {string} workspace such as "faces/library"
 * @param {string} folder a new folder
 */
export function stagePackage(workspace, folder) {
  const source = inRoot(workspace);
  requireBuilt(join(source, "dist", ".tsbuildinfo"));
  mkdirSync(folder, { recursive: true });
  copyBuild(join(source, "dist"), join(folder, "dist"));
  for (const name of OTHER_FOLDERS) copyIfPresent(join(source, name), join(folder, name));
  cpSync(inRoot("LICENSE"), join(folder, "LICENSE"));
  cpSync(join(source, "README.md"), join(folder, "README.md"));
  if (workspace === "apps/cli") copyPages(join(folder, "pages"));
  writeManifest(source, folder);
}

/** @param {string} folder */
function copyPages(folder) {
  const built = inRoot("apps", "web", "dist");
  requireBuilt(join(built, "index.html"));
  cpSync(built, folder, { recursive: true });
}

/**
 * @param {string} source
 * @param {string} folder
 */
function writeManifest(source, folder) {
  const manifest = JSON.parse(readFileSync(join(source, "package.json"), "utf8"));
  const published = JSON.stringify(publishedManifest(manifest), undefined, 2);
  writeFileSync(join(folder, "package.json"), `${published}\n`);
  const entries = entryModules(manifest);
  if (entries.length > 0) writeCommonJs(folder, entries);
}

/**
 * @param {string} from
 * @param {string} to
 */
function copyBuild(from, to) {
  const filter = (/** @type {string} */ path) => !/(?:\.map|\.tsbuildinfo)$/u.test(basename(path));
  cpSync(from, to, { recursive: true, filter });
  // Older versions of TypeScript resolve `./name.js` to a declaration, but not `./name.ts`.
  for (const path of filesBelow(to).filter((name) => name.endsWith(".d.ts"))) {
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replaceAll(SOURCE_IMPORT, '$<start>.js"'));
  }
}

/**
 * @param {string} from
 * @param {string} to
 */
function copyIfPresent(from, to) {
  if (existsSync(from)) cpSync(from, to, { recursive: true });
}

/** @param {string} path */
function requireBuilt(path) {
  if (existsSync(path)) return;
  throw new Error(`${path} is missing: run \`npm run build\` first`);
}
