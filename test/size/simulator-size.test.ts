/**
 * Limits the bytes that `@redrive/simulator` adds to a page. The engine turns a scenario and a seed
 * into counts: event queue, random numbers, waits and one world. Core is not counted, because a
 * page has it anyway.
 */
import { describe, expect, test } from "vitest";
import { type Bundle, bundle } from "./bundle.ts";

const WORLDS = "./faces/simulator/src/worlds";
const ENGINE_BYTES = 8000;

const engines = [
  ["calls", `export { runCalls } from "${WORLDS}/calls.ts";`],
  ["fleet", `export { runFleet } from "${WORLDS}/fleet.ts";`],
  ["contention", `export { runContention } from "${WORLDS}/contention.ts";`],
  ["queue", `export { runQueue } from "${WORLDS}/queue.ts";`],
] as const;

/** Larger parts: several worlds, or an engine with its checks. The limits are a ratchet. */
const largerParts = [
  ["all four worlds", engines.map(([, entry]) => entry).join("\n"), 12_864],
  [
    "simulate: worlds, checks, report, verdict",
    'export { simulate } from "@redrive/simulator";',
    17_024,
  ],
] as const;

const withoutCore = (entry: string) => bundle(entry, ["@redrive/core"]);

describe("minified and gzipped, without core", () => {
  test.each(engines)("the engine of %s is below 8 kB", async (name, entry) => {
    const { gzipBytes } = await withoutCore(entry);
    process.stdout.write(`engine of ${name}: ${gzipBytes} bytes gzipped\n`);
    expect(gzipBytes).toBeLessThan(ENGINE_BYTES);
  });

  test.each(largerParts)("%s stays below its limit", async (name, entry, maxBytes) => {
    const { gzipBytes } = await withoutCore(entry);
    process.stdout.write(`${name}: ${gzipBytes} bytes gzipped of at most ${maxBytes}\n`);
    expect(gzipBytes).toBeLessThan(maxBytes);
  });
});

/** The folders, and the files beside the index, that each export must not include. */
const exportsAlone = [
  ["schedule", ["worlds", "labs", "lint", "advise", "engine"]],
  ["coverage", ["worlds", "labs", "lint", "advise"]],
  ["herd", ["worlds", "labs", "lint", "advise"]],
  // Both simulate what the guards of a destination do to the calls of a process.
  ["lint", ["labs", "advise"]],
  ["advise", ["labs"]],
  ["simulate", ["labs", "lint", "advise"]],
  ["scenarios", ["worlds", "labs", "lint", "advise", "engine"]],
] as const;

describe("imported from the index", () => {
  test.each(exportsAlone)("%s excludes code that it does not use", async (name, unused) => {
    const built = await bundle(`export { ${name} } from "@redrive/simulator";`);
    for (const part of unused) {
      expect(partsOf(built)).not.toContain(part);
    }
  });

  test.each(["@redrive/simulator", "@redrive/simulator/labs", "@redrive/simulator/scenarios"])(
    "%s imports neither Node modules nor third-party code",
    async (path) => {
      const { imports, modules } = await bundle(`export * from "${path}";`);
      expect(imports).toEqual([]);
      const foreign = modules.filter(({ path }) => !isOurs(path));
      expect(foreign).toEqual([]);
    },
  );
});

function partsOf({ modules }: Bundle): readonly string[] {
  return modules.flatMap(({ path, bytes }) => {
    const [, part] = /^faces\/simulator\/src\/([a-z]+)[/.]/u.exec(path) ?? [];
    return part === undefined || bytes === 0 ? [] : [part];
  });
}

function isOurs(path: string): boolean {
  return path === "entry.ts" || /^(core|faces\/simulator)\/src\//u.test(path);
}
