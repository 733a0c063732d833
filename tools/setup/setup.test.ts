/** The setup: what it refuses, what it skips, and that it never runs twice at the same time. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { declaredNeeds, retryStep } from "../needs.mjs";
import { SLOWEST } from "../slowest-first.mjs";
import { belongsTo, filesOf, suites } from "../suites.mjs";
import { findProgram, SetupFailed } from "./command.mjs";
import { filesBelow, fingerprint } from "./fingerprint.mjs";
import { recordMatches } from "./install.mjs";
import { withLock } from "./lock.mjs";
import { nodeProblem } from "./node-version.mjs";
import { inRoot } from "./root.mjs";

const folder = mkdtempSync(join(tmpdir(), "redrive-setup-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the version of Node", () => {
  test.each(["20.19.0", "20.20.2", "22.0.0", "24.1.0"])("%s is supported", (version) => {
    expect(nodeProblem(version)).toBeUndefined();
  });

  test.each(["20.18.3", "18.20.4", "9.11.2"])("%s is refused with its version", (version) => {
    expect(nodeProblem(version)).toContain(`this is Node ${version}`);
  });
});

describe("installed packages", () => {
  const wanted = {
    "": { version: "0.1.0" },
    core: { version: "0.1.0" },
    "node_modules/a": { version: "1.0.0", integrity: "x" },
    "node_modules/other-platform": { version: "1.0.0", integrity: "y", optional: true },
  };

  test("match the lockfile without packages for other platforms", () => {
    const found = { "node_modules/a": { version: "1.0.0", integrity: "x" } };
    expect(recordMatches(wanted, found)).toBe(true);
  });

  test.each([
    ["a missing package", {}],
    ["another version", { "node_modules/a": { version: "1.0.1", integrity: "z" } }],
    ["another checksum", { "node_modules/a": { version: "1.0.0", integrity: "z" } }],
  ])("do not match with %s", (_, found) => {
    expect(recordMatches(wanted, found)).toBe(false);
  });
});

describe("a lock", () => {
  test("lets one caller in at a time, and all callers in the end", async () => {
    const path = join(folder, "one.lock");
    let inside = 0;
    let max = 0;
    const enter = () =>
      withLock(path, "another caller", async () => {
        max = Math.max(max, ++inside);
        await new Promise((resolve) => setImmediate(resolve));
        inside--;
      });
    await Promise.all([enter(), enter(), enter()]);
    expect(max).toBe(1);
    expect(existsSync(path)).toBe(false);
  });

  test("of a dead process is taken over", async () => {
    const path = join(folder, "dead.lock");
    const { pid } = spawnSync(process.execPath, ["-e", ""]);
    writeFileSync(path, String(pid));
    expect(await withLock(path, "nobody", async () => "done")).toBe("done");
  });

  test("is released when the work fails", async () => {
    const path = join(folder, "failed.lock");
    const failing = withLock(path, "nobody", () => Promise.reject(new Error("no luck")));
    await expect(failing).rejects.toThrow("no luck");
    expect(existsSync(path)).toBe(false);
  });
});

describe("needs", () => {
  test("are read from a line near the top", () => {
    expect(declaredNeeds("/** A. */\n// needs: redis, chromium\n", "a")).toEqual([
      "redis",
      "chromium",
    ]);
    expect(declaredNeeds("/** Needs: nothing. */\n", "a")).toEqual([]);
    expect(declaredNeeds(`${"\n".repeat(40)}// needs: redis`, "a")).toEqual([]);
  });

  test("that are unknown are refused by name", () => {
    expect(() => declaredNeeds("// needs: kafka", "a.test.ts")).toThrow('a.test.ts needs "kafka"');
  });
});

describe("a step that may fail", () => {
  test("is retried, and the last failure is thrown", async () => {
    let tries = 0;
    const failing = (times: number) => async () => {
      if (++tries <= times) throw new SetupFailed(`failure ${tries}`);
    };
    await retryStep(failing(2), 0);
    expect(tries).toBe(3);
    tries = 0;
    await expect(retryStep(failing(9), 0)).rejects.toThrow("failure 3");
  });

  test("is not retried after a programming error", async () => {
    let tries = 0;
    const wrong = async () => {
      tries++;
      throw new TypeError("wrong");
    };
    await expect(retryStep(wrong, 0)).rejects.toThrow(TypeError);
    expect(tries).toBe(1);
  });
});

describe("suites", () => {
  test("every test file belongs to exactly one suite", () => {
    const files = suites.flatMap(filesOf);
    expect(new Set(files).size).toBe(files.length);
    const owner = (path: string) => suites.filter((suite) => belongsTo(suite, path));
    for (const path of ["core/src/a.test.ts", "faces/service/src/stores/a.test.ts"]) {
      expect(owner(path)).toHaveLength(1);
    }
    expect(owner("test/browser/a.test.ts").map(({ name }) => name)).toEqual(["browser"]);
    expect(owner("test/servers/redis.ts")).toEqual([]);
  });
});

test("the slowest test files exist", () => {
  for (const file of SLOWEST) expect(existsSync(inRoot(file)), file).toBe(true);
});

describe("fingerprints", () => {
  test("change with content and facts, not with time", () => {
    const file = join(folder, "a.txt");
    writeFileSync(file, "a");
    const before = fingerprint(filesBelow(file), ["x"]);
    writeFileSync(file, "a");
    expect(fingerprint(filesBelow(file), ["x"])).toBe(before);
    expect(fingerprint(filesBelow(file), ["y"])).not.toBe(before);
    writeFileSync(file, "b");
    expect(fingerprint(filesBelow(file), ["x"])).not.toBe(before);
  });
});

test("programs are searched on the PATH, in order", () => {
  expect(findProgram(["no-such-program", "node"])).toMatch(/node$/u);
  expect(findProgram(["no-such-program"])).toBeUndefined();
});
