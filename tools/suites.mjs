/**
 * Suites: groups the test files into suites. Vitest's projects and the setup read the same table, so
 * the setup installs exactly what the tests need.
 */
import { relative, sep } from "node:path";
import { filesBelow } from "./setup/fingerprint.mjs";
import { inRoot, root } from "./setup/root.mjs";

/**
 * @typedef {object} Suite
 * @property {string} name
 * @property {readonly string[]} roots folders whose `*.test.ts` files belong to it
 * @property {readonly string[]} except folders below those that belong to another suite
 * @property {boolean} isolated one process per file: slower, but ends what a file leaves running
 * @property {boolean} [onRequest] runs only if it is named, because it takes long
 * @property {boolean} [usesPackages] uses packages, not their files, so it can run on the build
 */

/** @type {readonly Suite[]} */
export const suites = [
  {
    name: "unit",
    roots: ["core/src", "faces", "apps", "tools", "bench"],
    except: ["faces/service/src/stores", "bench/node_modules"],
    isolated: false,
  },
  {
    name: "stores",
    roots: ["faces/service/src/stores"],
    except: [],
    isolated: true,
  },
  {
    name: "cross",
    roots: ["test"],
    except: ["test/browser", "test/fleet", "test/large"],
    isolated: true,
    usesPackages: true,
  },
  { name: "browser", roots: ["test/browser"], except: [], isolated: true, usesPackages: true },
  { name: "fleet", roots: ["test/fleet"], except: [], isolated: true, onRequest: true },
  { name: "large", roots: ["test/large"], except: [], isolated: true, onRequest: true },
];

/** Set by `tools/test.mjs`: files with missing needs, one per line. */
export const EXCLUDED_FILES_VARIABLE = "REDRIVE_LEFT_OUT";

/** Set by `tools/test.mjs`: the build is that of the current sources. */
export const BUILT_VARIABLE = "REDRIVE_IS_BUILT";

/**
 * Whether the packages that a suite imports are the build. Started without `npm test`, Vitest cannot know
 * whether there is a current one, and uses the sources.
 * @param {Suite} suite
 */
export function isOnBuild({ usesPackages = false }) {
  return usesPackages && process.env[BUILT_VARIABLE] === "true";
}

/** @param {Suite} suite */
export function globsOf(suite) {
  const excluded = (process.env[EXCLUDED_FILES_VARIABLE] ?? "")
    .split("\n")
    .filter((file) => file !== "");
  const others = suite.except.map((folder) => `${folder}/**`);
  return {
    include: suite.roots.map((folder) => `${folder}/**/*.test.ts`),
    exclude: ["**/node_modules/**", "**/dist/**", ...others, ...excluded],
  };
}

/**
 * Returns the test files of a suite as absolute paths.
 * @param {Suite} suite
 * @returns {string[]}
 */
export function filesOf(suite) {
  return suite.roots
    .flatMap((folder) => filesBelow(inRoot(folder)))
    .filter((path) => belongsTo(suite, relative(root, path).split(sep).join("/")));
}

/**
 * @param {Suite} suite
 * @param {string} path from the root, with forward slashes
 */
export function belongsTo(suite, path) {
  const isBelow = (/** @type {string} */ folder) => path.startsWith(`${folder}/`);
  return path.endsWith(".test.ts") && suite.roots.some(isBelow) && !suite.except.some(isBelow);
}
