/**
 * Import direction: checks which folders may import which: `apps -> faces -> core`, never backward
 * or sideways. In the service, only the store openers import stores. The tables define the rule.
 */
import { posix } from "node:path";
import { type Finding, isCode, isForTests, isProduct, isTest, type Source } from "./source.ts";
import { type Import, importsOf } from "./tokens.ts";

/** The folder of each npm package. */
const PACKAGES: Readonly<Record<string, string>> = {
  "@redrive/core": "core",
  redrive: "faces/library",
  "@redrive/service": "faces/service",
  "@redrive/simulator": "faces/simulator",
  "@redrive/cli": "apps/cli",
  "@redrive/web": "apps/web",
};

/** Public subpaths that may be imported besides the package itself. */
const SUBPATHS = [
  "redrive/consume",
  "@redrive/core/interop",
  "@redrive/service/client",
  "@redrive/service/http",
  "@redrive/simulator/export",
  "@redrive/simulator/share",
  "@redrive/simulator/text",
];

const FACES = ["faces/library", "faces/service", "faces/simulator"];

/** The packages that each folder may import. `test`, `tools` and `bench` may import anything. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  "faces/library": ["core"],
  "faces/service": ["core"],
  "faces/simulator": ["core"],
  "apps/cli": ["core", ...FACES],
  "apps/web": ["core", ...FACES],
};

/** Folders without third-party dependencies, and folders that must also run without Node. */
const NO_DEPENDENCIES = ["core", "faces/library", "faces/simulator"];
const NO_NODE = ["core", "faces/simulator"];

/** Files whose users install this package themselves: an optional peer dependency. */
const OPTIONAL_PEERS: Readonly<Record<string, string>> = {
  "faces/library/src/otel.ts": "@opentelemetry/api",
};

/** The files of the service that a store may import: its contract, its data and collections. */
const STORE_CONTRACT = [
  "model/store.ts",
  "model/batch.ts",
  "model/destination-row.ts",
  "model/document-table.ts",
  "model/lane-due.ts",
  "model/node-report.ts",
  "model/partition.ts",
  "model/store-errors.ts",
  "model/task-query.ts",
  "model/task.ts",
  "model/guarded-store.ts",
  "model/transfer.ts",
  "collections/heap.ts",
].map((name) => `faces/service/src/${name}`);

/** The files of the service that may import the stores. */
const STORE_OPENERS = ["index.ts", "open-store.ts", "create-redrive.ts"].map(
  (name) => `faces/service/src/${name}`,
);

/** The helpers that start a server, and the need that a test file must declare to use each. */
const SERVER_NEEDS: Readonly<Record<string, string>> = {
  "faces/service/src/stores/postgres/postgres-server.testing.ts": "postgres",
  "test/servers/chromium.ts": "chromium",
  "test/servers/pgbouncer.ts": "pgbouncer",
  "test/servers/postgres.ts": "postgres",
  "test/servers/redis.ts": "redis",
  "test/servers/fake-time.ts": "faketime",
  "faces/service/src/stores/redis/redis-server.testing.ts": "redis",
};

export function importDirection(sources: readonly Source[]): Finding[] {
  return sources.filter(isCode).flatMap((source) =>
    importsOf(source.text).flatMap((entry) => {
      const message = refuse(source, entry);
      return message === undefined ? [] : [{ path: source.path, line: entry.line, message }];
    }),
  );
}

function refuse({ path, text }: Source, { specifier }: Import): string | undefined {
  if (specifier.startsWith(".")) {
    const target = posix.join(posix.dirname(path), specifier);
    return refuseFile(path, target) ?? refuseUndeclared(path, text, target);
  }
  // A file of the same package, which `imports` in its package.json names.
  if (specifier.startsWith("#")) return undefined;
  return isProduct(path) ? refusePackage(path, specifier) : undefined;
}

function refuseFile(path: string, target: string): string | undefined {
  if (isTest(target)) return `nothing imports a test file, but this imports ${target}`;
  if (isForTests(target) && !isForTests(path) && isProduct(path)) {
    return `only tests import ${target}`;
  }
  if (folderOf(target) === "test" && folderOf(path) !== "test" && !startsServer(path, target)) {
    return `nothing imports test/, but this imports ${target}`;
  }
  if (!isProduct(path) || startsServer(path, target)) return undefined;
  if (folderOf(target) !== folderOf(path)) {
    return `imports ${target} by path; import another package by its name`;
  }
  return refuseStore(path, target);
}

/** The tests of a store that is a server start one, and so does its benchmark. */
function startsServer(path: string, target: string): boolean {
  const isStoreTest = isForTests(path) && storeOf(path) !== undefined;
  return (isStoreTest || folderOf(path) === "bench") && target.startsWith("test/servers/");
}

/** A store imports only its contract, core and its own files. Only the openers import stores. */
function refuseStore(path: string, target: string): string | undefined {
  const own = storeOf(path);
  const other = storeOf(target);
  if (isForTests(path)) return undefined;
  if (own !== undefined && !STORE_CONTRACT.includes(target) && !belongs(other, own)) {
    return `a store imports its contract, core and its own files only, not ${target}`;
  }
  if (own === undefined && other !== undefined && !STORE_OPENERS.includes(path)) {
    return `only ${STORE_OPENERS.join(", ")} may import a store, and this imports ${target}`;
  }
  return undefined;
}

/** `sqlite-schema` and `sqlite/schema` belong to `sqlite`, and vice versa. */
function belongs(other: string | undefined, own: string): boolean {
  return other !== undefined && other.split("-")[0] === own.split("-")[0];
}

function storeOf(path: string): string | undefined {
  return /^faces\/service\/src\/stores\/([^/.]+)/u.exec(path)?.[1];
}

function refusePackage(path: string, specifier: string): string | undefined {
  const folder = folderOf(path);
  const name = packageNameOf(specifier);
  const target = Object.hasOwn(PACKAGES, name) ? PACKAGES[name] : undefined;
  if (target !== undefined) {
    if (name !== specifier && !SUBPATHS.includes(specifier)) {
      return `imports ${specifier}; import ${name} itself`;
    }
    if (MAY_IMPORT[folder]?.includes(target)) return undefined;
    return `${folder} may not import ${name}; it may import ${MAY_IMPORT[folder]?.join(", ") || "nothing"}`;
  }
  if (isForTests(path)) return undefined;
  if (specifier.startsWith("node:")) {
    return NO_NODE.includes(folder)
      ? `${folder} runs without Node, but this imports ${specifier}`
      : undefined;
  }
  return NO_DEPENDENCIES.includes(folder) && OPTIONAL_PEERS[path] !== specifier
    ? `${folder} has no third-party dependencies, but this imports ${specifier}`
    : undefined;
}

function refuseUndeclared(path: string, text: string, target: string): string | undefined {
  const need = SERVER_NEEDS[target];
  if (need === undefined || !isTest(path)) return undefined;
  const declared = /^\/\/ needs: (.*)$/mu.exec(text)?.[1]?.split(/,\s*/u) ?? [];
  return declared.includes(need) ? undefined : `starts ${need} without a line "// needs: ${need}"`;
}

function packageNameOf(specifier: string): string {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}

/** `core`, `faces/service`, `apps/cli`, or the first folder. */
function folderOf(path: string): string {
  const [first = "", second = ""] = path.split("/");
  return first === "faces" || first === "apps" ? `${first}/${second}` : first;
}
