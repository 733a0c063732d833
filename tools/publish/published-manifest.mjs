/**
 * Published manifest: the package.json that a tarball contains. It leaves out what only this checkout
 * needs, and adds entries for CommonJS (see `commonjs.mjs`).
 */

/** The condition under which tests and editors of this checkout load sources. Sources are not published. */
const SOURCE_CONDITION = "redrive-source";

/** Fields that only this checkout uses. `private` keeps npm from publishing a folder of the checkout. */
const PRIVATE_FIELDS = new Set(["private", "devDependencies", "scripts"]);

/**
 * @typedef {Record<string, unknown> & {
 *   name: string,
 *   exports?: Record<string, Entry>,
 *   imports?: Record<string, Record<string, unknown>>,
 * }} Manifest
 */
/** @typedef {string | Record<string, string>} Entry */

/**
 * @param {Manifest} manifest the package.json of the checkout
 * @returns {Record<string, unknown>}
 */
export function publishedManifest(manifest) {
  const fields = Object.entries(manifest).filter(([name]) => !PRIVATE_FIELDS.has(name));
  return {
    ...Object.fromEntries(fields),
    ...(manifest.exports && { exports: publishedExports(manifest.exports) }),
    ...(manifest.imports && { imports: publishedImports(manifest.imports) }),
  };
}

/**
 * Returns the paths below `dist` that users can import, without extension: `index`, `otel`.
 * @param {Manifest} manifest
 * @returns {string[]}
 */
export function entryModules(manifest) {
  return Object.values(manifest.exports ?? {}).flatMap((entry) => moduleOf(entry) ?? []);
}

/** @param {Record<string, Entry>} exported */
function publishedExports(exported) {
  const entries = Object.entries(exported).map(([path, entry]) => {
    const module = moduleOf(entry);
    return [path, module === undefined ? entry : publishedEntry(module)];
  });
  return { ...Object.fromEntries(entries), "./package.json": "./package.json" };
}

/** @param {Record<string, Record<string, unknown>>} imported */
function publishedImports(imported) {
  return Object.fromEntries(
    Object.entries(imported).map(([name, { [SOURCE_CONDITION]: _, ...conditions }]) => [
      name,
      conditions,
    ]),
  );
}

/** @param {string} module */
function publishedEntry(module) {
  return {
    require: { types: `./cjs/${module}.d.ts`, default: `./cjs/${module}.js` },
    types: `./dist/${module}.d.ts`,
    default: `./dist/${module}.js`,
  };
}

/**
 * @param {Entry} entry
 * @returns {string | undefined}
 */
function moduleOf(entry) {
  if (typeof entry === "string" || entry[SOURCE_CONDITION] === undefined) return undefined;
  return /^\.\/dist\/(?<module>.+)\.js$/u.exec(entry["default"] ?? "")?.groups?.["module"];
}
