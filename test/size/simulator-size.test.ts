/**
 * What `@redrive/simulator` adds to a page. The engine is what turns a scenario and a seed into counts:
 * event queue, chance, waits and one world. Core is counted apart, because a page has it anyway.
 */
import { describe, expect, test } from "vitest";
import { type Bundle, bundle } from "./bundle.ts";

const WORLDS = "./faces/simulator/src/worlds";
const ENGINE_BYTES = 8000;

const engines = [
  ["calls", `export { runCalls } from "${WORLDS}/calls/calls.ts";`],
  ["fleet", `export { runFleet } from "${WORLDS}/fleet/fleet.ts";`],
  ["contention", `export { runContention } from "${WORLDS}/contention.ts";`],
  ["queue", `export { runQueue } from "${WORLDS}/queue.ts";`],
] as const;

/** Not engines: these hold several worlds, or the engine's surroundings. A ratchet, as for the library. */
const wholes = [
  ["all four worlds", engines.map(([, entry]) => entry).join("\n"), 12_800],
  [
    "simulate: worlds, checks, report, verdict",
    'export { simulate } from "@redrive/simulator";',
    16_896,
  ],
] as const;

const withoutCore = (entry: string) => bundle(entry, ["@redrive/core"]);

describe("minified and gzipped, without core", () => {
  test.each(engines)("the engine of %s is below 8 kB", async (name, entry) => {
    const { gzipBytes } = await withoutCore(entry);
    process.stdout.write(`engine of ${name}: ${gzipBytes} bytes gzipped\n`);
    expect(gzipBytes).toBeLessThan(ENGINE_BYTES);
  });

  test.each(wholes)("%s stays below its bound", async (name, entry, most) => {
    const { gzipBytes } = await withoutCore(entry);
    process.stdout.write(`${name}: ${gzipBytes} bytes gzipped of at most ${most}\n`);
    expect(gzipBytes).toBeLessThan(most);
  });
});

/** What each export may bring of the simulator's own folders. */
const alone = [
  ["schedule", ["worlds", "labs", "lint", "advise", "measure", "events"]],
  ["coverage", ["worlds", "labs", "lint", "advise", "measure"]],
  ["herd", ["worlds", "labs", "lint", "advise"]],
  ["lint", ["worlds", "labs", "advise"]],
  ["advise", ["worlds", "labs"]],
  ["simulate", ["labs", "lint", "advise"]],
  ["scenarios", ["worlds", "labs", "lint", "advise", "events", "measure"]],
] as const;

describe("imported from the index", () => {
  test.each(alone)("%s does not drag in what it does not use", async (name, unused) => {
    const made = await bundle(`export { ${name} } from "@redrive/simulator";`);
    for (const folder of unused) {
      expect(foldersOf(made)).not.toContain(folder);
    }
  });

  test.each(["@redrive/simulator", "@redrive/simulator/labs", "@redrive/simulator/scenarios"])(
    "%s needs nothing of Node's and no third party",
    async (path) => {
      const { imports, modules } = await bundle(`export * from "${path}";`);
      expect(imports).toEqual([]);
      const foreign = modules.filter(({ path }) => !isOurs(path));
      expect(foreign).toEqual([]);
    },
  );
});

function foldersOf({ modules }: Bundle): readonly string[] {
  return modules.flatMap(({ path, bytes }) => {
    const [, folder] = /^faces\/simulator\/src\/([a-z]+)\//u.exec(path) ?? [];
    return folder === undefined || bytes === 0 ? [] : [folder];
  });
}

function isOurs(path: string): boolean {
  return path === "entry.ts" || /^(core|faces\/simulator)\/src\//u.test(path);
}
