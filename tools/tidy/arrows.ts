/**
 * Arrows: who may import whom. `apps -> faces -> core`, never back, never sideways; inside the
 * service `routes, scheduler -> store.ts <- stores/*`. The tables below are the rule.
 */
import { posix } from "node:path";
import { type Finding, isCode, isForTests, isProduct, isTest, type Source } from "./source.ts";
import { type Import, importsOf } from "./tokens.ts";

/** Folders by npm name. */
const PACKAGES: Readonly<Record<string, string>> = {
  "@redrive/core": "core",
  redrive: "faces/library",
  "@redrive/service": "faces/service",
  "@redrive/simulator": "faces/simulator",
  "@redrive/cli": "apps/cli",
  "@redrive/web": "apps/web",
};

/** What may be imported besides a package itself: its other doors. */
const DOORS = [
  "@redrive/core/interop",
  "@redrive/service/client",
  "@redrive/service/http",
  "@redrive/simulator/export",
  "@redrive/simulator/share",
  "@redrive/simulator/text",
];

const FACES = ["faces/library", "faces/service", "faces/simulator"];

/** What each folder may import from the others. `test`, `tools` and `bench` may import anything. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  "faces/library": ["core"],
  "faces/service": ["core"],
  "faces/simulator": ["core"],
  "apps/cli": ["core", ...FACES],
  "apps/web": ["core", ...FACES],
};

/** Folders whose users get no third-party code, and those that also run where Node is not. */
const NO_DEPENDENCIES = ["core", "faces/library", "faces/simulator"];
const NO_NODE = ["core", "faces/simulator"];

/** A door of its own whose users bring this package along: an optional peer. */
const PEERS: Readonly<Record<string, string>> = {
  "faces/library/src/extras/otel.ts": "@opentelemetry/api",
};

/** What a store may know of the service: its contract, the data in it, and plain containers. */
const STORE_CONTRACT = ["model/store.ts", "model/task.ts", "collections/heap.ts"].map(
  (name) => `faces/service/src/${name}`,
);

/** The files of the service that know which stores there are. */
const STORE_OPENERS = ["index.ts", "open-store.ts", "create-redrive.ts"].map(
  (name) => `faces/service/src/${name}`,
);

/** The helpers that start a server, and the need a test file declares to use each. */
const SERVER_NEEDS: Readonly<Record<string, string>> = {
  "test/servers/chromium.ts": "chromium",
  "test/servers/postgres.ts": "postgres",
  "test/servers/redis.ts": "redis",
};

export function arrows(sources: readonly Source[]): Finding[] {
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
  return isProduct(path) ? refusePackage(path, specifier) : undefined;
}

function refuseFile(path: string, target: string): string | undefined {
  if (isTest(target)) return `nothing imports a test file, but this imports ${target}`;
  if (isForTests(target) && !isForTests(path) && isProduct(path)) {
    return `only tests import ${target}`;
  }
  if (folderOf(target) === "test" && folderOf(path) !== "test") {
    return `nothing imports test/, but this imports ${target}`;
  }
  if (!isProduct(path)) return undefined;
  if (folderOf(target) !== folderOf(path)) {
    return `imports ${target} by path; import another package by its name`;
  }
  return refuseStore(path, target);
}

/** A store knows its contract, core and its own files; only the openers know the stores. */
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

/** `sqlite-schema` and `sqlite/schema` belong to `sqlite`, and the other way round. */
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
    if (name !== specifier && !DOORS.includes(specifier)) {
      return `imports ${specifier}; import ${name} itself`;
    }
    if (MAY_IMPORT[folder]?.includes(target)) return undefined;
    return `${folder} may not import ${name}; it may import ${MAY_IMPORT[folder]?.join(", ") || "nothing"}`;
  }
  if (isForTests(path)) return undefined;
  if (specifier.startsWith("node:")) {
    return NO_NODE.includes(folder) ? `${folder} runs without Node, not ${specifier}` : undefined;
  }
  return NO_DEPENDENCIES.includes(folder) && PEERS[path] !== specifier
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
