/**
 * `npm run lockfile`: completes package-lock.json after `npm install`. If the registry lacks builds
 * of a package for other platforms, npm omits them, and `npm ci` then rejects the lockfile. The
 * names of the builds contain the platform, so this tool can write their entries.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";
import { say } from "./setup/progress.mjs";
import { inRoot } from "./setup/root.mjs";

/** @typedef {{ version?: string, dev?: boolean, dependencies?: Record<string, string>, optionalDependencies?: Record<string, string>, [field: string]: unknown }} Entry */
/** @typedef {{ packages: Record<string, Entry> }} Lockfile */

const PLATFORM =
  /-(?<os>android|darwin|freebsd|linux|openharmony|win32)-(?<cpu>arm64|arm|x64|ia32|ppc64|s390x|riscv64|loong64)(?:-(?<libc>musl|gnu|msvc|eabi|gnueabihf))?$/u;
const LIBC = /** @type {Readonly<Record<string, string>>} */ ({ musl: "musl", gnu: "glibc" });

/**
 * Lists dependencies without an entry: the name, the requested version, and the package that needs it.
 * @param {Lockfile} lockfile
 * @returns {{ name: string, range: string, by: string, isOptional: boolean }[]}
 */
export function missingEntries({ packages }) {
  return Object.entries(packages).flatMap(([by, entry]) =>
    [entry.dependencies ?? {}, entry.optionalDependencies ?? {}].flatMap((list, kind) =>
      Object.entries(list)
        .filter(([name]) => !isReachable(packages, by, name))
        .map(([name, range]) => ({ name, range, by, isOptional: kind === 1 })),
    ),
  );
}

/**
 * Returns the lockfile with an entry for every optional dependency.
 * @param {Lockfile} lockfile
 * @returns {Lockfile}
 */
export function completed(lockfile) {
  const added = missingEntries(lockfile)
    .filter(({ isOptional }) => isOptional)
    .map(({ name, range, by }) => {
      const { dev } = lockfile.packages[by] ?? {};
      return [`node_modules/${name}`, entryFor(name, range, dev === true)];
    });
  const entries = [...Object.entries(lockfile.packages), ...added];
  const packages = Object.fromEntries(
    entries.sort(([a], [b]) => String(a).localeCompare(String(b), "en")),
  );
  return { ...lockfile, packages };
}

/**
 * Searches like npm: first the package's own node_modules, then those of its parents.
 * @param {Record<string, Entry>} packages
 * @param {string} by
 * @param {string} name
 * @returns {boolean}
 */
function isReachable(packages, by, name) {
  if (Object.hasOwn(packages, `${by === "" ? "" : `${by}/`}node_modules/${name}`)) return true;
  if (by === "") return false;
  const cut = by.lastIndexOf("/node_modules/");
  return isReachable(packages, cut < 0 ? "" : by.slice(0, cut), name);
}

/**
 * @param {string} name
 * @param {string} range
 * @param {boolean} dev
 * @returns {Entry}
 */
function entryFor(name, range, dev) {
  const version = range.replace(/^[\^~]/u, "");
  const common = { version, ...(dev ? { dev } : {}), optional: true };
  if (name.endsWith("-wasm32-wasi")) return { ...common, cpu: ["wasm32"] };
  const { os, cpu, libc = "" } = PLATFORM.exec(name)?.groups ?? {};
  if (os === undefined)
    throw new Error(`cannot tell the platform of ${name}: extend tools/lockfile.mjs`);
  const libcName = LIBC[libc];
  return {
    ...common,
    cpu: [cpu],
    ...(os === "linux" && libcName !== undefined ? { libc: [libcName] } : {}),
    os: [os],
  };
}

if (import.meta.url === pathToFileURL(argv[1] ?? "").href) {
  for (const name of ["package-lock.json", "bench/package-lock.json"]) {
    const path = inRoot(name);
    const before = JSON.parse(readFileSync(path, "utf8"));
    const after = completed(before);
    const added = Object.keys(after.packages).length - Object.keys(before.packages).length;
    if (added > 0) writeFileSync(path, `${JSON.stringify(after, null, 2)}\n`);
    say(`${name}: ${added === 0 ? "complete" : `${added} packages for other platforms added`}`);
  }
}
