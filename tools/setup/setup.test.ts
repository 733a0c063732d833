/** The set-up: what it refuses, what it skips, and that it is never done twice at once. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { LONGEST } from "../longest-first.mjs";
import { again, declaredNeeds } from "../needs.mjs";
import { belongsTo, filesOf, suites } from "../suites.mjs";
import { findProgram, SetupFailed } from "./command.mjs";
import { filesBelow, fingerprint } from "./fingerprint.mjs";
import { recordMatches } from "./install.mjs";
import { withLock } from "./lock.mjs";
import { refuseNode } from "./node-version.mjs";
import { inRoot } from "./root.mjs";

const folder = mkdtempSync(join(tmpdir(), "redrive-setup-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the version of Node", () => {
  test.each(["20.19.0", "20.20.2", "22.0.0", "24.1.0"])("%s will do", (version) => {
    expect(refuseNode(version)).toBeUndefined();
  });

  test.each(["20.18.3", "18.20.4", "9.11.2"])("%s is refused, by name", (version) => {
    expect(refuseNode(version)).toContain(`this is Node ${version}`);
  });
});

describe("installed packages", () => {
  const wanted = {
    "": { version: "0.1.0" },
    core: { version: "0.1.0" },
    "node_modules/a": { version: "1.0.0", integrity: "x" },
    "node_modules/other-platform": { version: "1.0.0", integrity: "y", optional: true },
  };

  test("match the lockfile without what is for other platforms", () => {
    const found = { "node_modules/a": { version: "1.0.0", integrity: "x" } };
    expect(recordMatches(wanted, found)).toBe(true);
  });

  test.each([
    ["a missing one", {}],
    ["another version", { "node_modules/a": { version: "1.0.1", integrity: "z" } }],
    ["other bytes", { "node_modules/a": { version: "1.0.0", integrity: "z" } }],
  ])("do not match with %s", (_, found) => {
    expect(recordMatches(wanted, found)).toBe(false);
  });
});

describe("a lock", () => {
  test("lets one in at a time, and everyone in the end", async () => {
    const path = join(folder, "one.lock");
    let inside = 0;
    let most = 0;
    const enter = () =>
      withLock(path, "a colleague", async () => {
        most = Math.max(most, ++inside);
        await new Promise((resolve) => setImmediate(resolve));
        inside--;
      });
    await Promise.all([enter(), enter(), enter()]);
    expect(most).toBe(1);
    expect(existsSync(path)).toBe(false);
  });

  test("of a process that died is taken over", async () => {
    const path = join(folder, "dead.lock");
    const { pid } = spawnSync(process.execPath, ["-e", ""]);
    writeFileSync(path, String(pid));
    expect(await withLock(path, "nobody", async () => "done")).toBe("done");
  });

  test("is given back when the work fails", async () => {
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

  test("that nobody can meet are refused by name", () => {
    expect(() => declaredNeeds("// needs: kafka", "a.test.ts")).toThrow('a.test.ts needs "kafka"');
  });
});

describe("a step that may fail now and then", () => {
  test("is tried again, and its last failure is told", async () => {
    let tries = 0;
    const failing = (times: number) => async () => {
      if (++tries <= times) throw new SetupFailed(`failure ${tries}`);
    };
    await again(failing(2), 0);
    expect(tries).toBe(3);
    tries = 0;
    await expect(again(failing(9), 0)).rejects.toThrow("failure 3");
  });

  test("is not tried again after a mistake of ours", async () => {
    let tries = 0;
    const wrong = async () => {
      tries++;
      throw new TypeError("wrong");
    };
    await expect(again(wrong, 0)).rejects.toThrow(TypeError);
    expect(tries).toBe(1);
  });
});

describe("suites", () => {
  test("no test file belongs to two, and each of ours to one", () => {
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

test("the files that begin first are there", () => {
  for (const file of LONGEST) expect(existsSync(inRoot(file)), file).toBe(true);
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

test("programs are looked for on the PATH, in order", () => {
  expect(findProgram(["no-such-program", "node"])).toMatch(/node$/u);
  expect(findProgram(["no-such-program"])).toBeUndefined();
});
