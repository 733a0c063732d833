/** Each tidy rule finds a violation and accepts similar code that is allowed. */
import { describe, expect, test } from "vitest";
import * as core from "../../core/src/index.ts";
import { completed } from "../lockfile.mjs";
import { ambient } from "./ambient.ts";
import { cycles } from "./cycles.ts";
import { mutualFolders } from "./folders.ts";
import { guardSteps, STEPS } from "./guard-steps.ts";
import { importDirection } from "./import-direction.ts";
import { silencedTests, traces } from "./leftovers.ts";
import { lockfile } from "./lockfile.ts";
import { names } from "./names.ts";
import { purpose } from "./purpose.ts";
import { sizes } from "./sizes.ts";
import type { Finding, Rule, Source } from "./source.ts";

/** Runs a rule on one file. */
function findingsIn(rule: Rule, path: string, text: string): Finding[] {
  return rule([{ path, text }]);
}

/** Joins text that the rule would otherwise find in this file. */
const join = (...parts: string[]) => parts.join("");

describe("guards", () => {
  const steps = 'import {\n  admit,\n  takeRate,\n} from "@redrive/core";';

  test("the list has every exported function of core that steps a guard", () => {
    const isStep = (name: string) =>
      /^(?:enter|leave|take|return|record|count|restart)[A-Z]/u.test(name);
    expect(Object.keys(core).filter(isStep).toSorted()).toEqual([...STEPS].toSorted());
  });

  test("a face may not step a guard", () => {
    expect(findingsIn(guardSteps, "faces/library/src/a.ts", steps)).toEqual([
      { path: "faces/library/src/a.ts", line: 3, message: expect.stringContaining("takeRate") },
    ]);
  });

  test.each([
    ["core/src/a.ts", steps],
    ["faces/library/src/a.test.ts", steps],
    ["faces/service/src/http/access.ts", steps],
    ["faces/library/src/a.ts", 'import { Admission } from "@redrive/core";'],
    ["faces/library/src/a.ts", 'import { takeRate } from "./own.ts";'],
  ])("%s may: %s", (path, text) => {
    expect(findingsIn(guardSteps, path, text)).toEqual([]);
  });
});

describe("imports", () => {
  test.each([
    ["core/src/a.ts", "redrive", "core may not import redrive"],
    ["core/src/a.ts", "@redrive/service", "core may not import"],
    ["faces/library/src/a.ts", "@redrive/simulator", "faces/library may not import"],
    ["faces/service/src/a.ts", "redrive", "faces/service may not import"],
    ["apps/cli/src/a.ts", "@redrive/web", "apps/cli may not import"],
    ["apps/cli/src/a.ts", "@redrive/core/src/decide/policy.ts", "import @redrive/core itself"],
    ["faces/library/src/a.ts", "../../../core/src/decide/policy.ts", "by its name"],
    ["core/src/a.ts", "lodash", "no third-party dependencies"],
    ["faces/library/src/a.ts", "lodash", "no third-party dependencies"],
    ["faces/library/src/a.ts", "@opentelemetry/api", "no third-party dependencies"],
    ["faces/library/src/otel.ts", "lodash", "no third-party dependencies"],
    ["faces/simulator/src/a.ts", "@scope/lodash/deep", "no third-party dependencies"],
    ["core/src/a.ts", "node:fs", "runs without Node"],
    ["faces/simulator/src/a.ts", "node:fs", "runs without Node"],
    ["apps/cli/src/a.ts", "../../../test/servers/redis.ts", "nothing imports test/"],
    ["tools/a.ts", "../test/servers/redis.ts", "nothing imports test/"],
    ["core/src/a.ts", "./b.test.ts", "nothing imports a test file"],
    ["core/src/a.ts", "./policy.testing.ts", "only tests import"],
    ["faces/service/src/stores/sqlite.ts", "../scheduler.ts", "a store imports its contract"],
    ["faces/service/src/stores/sqlite.ts", "./memory.ts", "a store imports its contract"],
    ["faces/service/src/scheduler.ts", "./stores/sqlite.ts", "may import a store"],
    ["test/e2e/a.test.ts", "../servers/redis.ts", 'without a line "// needs: redis"'],
  ])("%s may not import %s", (path, specifier, message) => {
    const found = findingsIn(importDirection, path, `\nimport { a } from "${specifier}";`);
    expect(found).toEqual([{ path, line: 2, message: expect.stringContaining(message) }]);
  });

  test.each([
    ["core/src/a.ts", "./b.ts"],
    ["core/src/a.test.ts", "fast-check"],
    ["core/src/a.test.ts", "./policy.testing.ts"],
    ["faces/library/src/a.ts", "@redrive/core"],
    ["faces/library/src/a.ts", "node:http"],
    ["faces/library/src/otel.ts", "@opentelemetry/api"],
    ["faces/service/src/a.ts", "fastify"],
    ["faces/service/src/stores/sqlite.ts", "../model/store.ts"],
    ["faces/service/src/stores/sqlite.ts", "./sqlite-schema.ts"],
    ["faces/service/src/stores/sqlite.ts", "@redrive/core"],
    ["faces/service/src/stores/sqlite.test.ts", "./conformance.ts"],
    ["faces/service/src/open-store.ts", "./stores/sqlite.ts"],
    ["apps/cli/src/a.ts", "@redrive/service"],
    ["test/agreement.test.ts", "../core/src/decide/policy.testing.ts"],
    ["bench/stores/a.mjs", "../../test/servers/postgres.ts"],
  ])("%s may import %s", (path, specifier) => {
    expect(findingsIn(importDirection, path, `import { a } from "${specifier}";`)).toEqual([]);
  });

  test("a need may be declared, and imports in comments and strings do not count", () => {
    const text = '// needs: redis, chromium\nimport { a } from "../servers/redis.ts";';
    expect(findingsIn(importDirection, "test/e2e/a.test.ts", text)).toEqual([]);
    const words = '/* import "redrive" */ const a = `import b from "redrive"`; // from "redrive"';
    expect(findingsIn(importDirection, "core/src/a.ts", words)).toEqual([]);
  });

  test.each([
    'export { a } from "redrive";',
    'import "redrive";',
    'const a = await import("redrive");',
    'import type { A } from "redrive";',
    'import {\n  a,\n} from "redrive";',
  ])("every form of import is found: %s", (text) => {
    expect(findingsIn(importDirection, "core/src/a.ts", text)).toHaveLength(1);
  });
});

describe("cycles", () => {
  const tree = (...files: [string, string][]): Source[] =>
    files.map(([path, text]) => ({ path, text }));

  test("of any length are found", () => {
    const sources = tree(
      ["core/src/a.ts", 'import { b } from "./b.ts";'],
      ["core/src/b.ts", 'export { c } from "./deep/c.ts";'],
      ["core/src/deep/c.ts", 'import { a } from "../a.ts";'],
      ["core/src/d.ts", 'import { a } from "./a.ts";'],
    );
    const path = "core/src/a.ts -> core/src/b.ts -> core/src/deep/c.ts -> core/src/a.ts";
    expect(cycles(sources).map(({ message }) => message)).toContain(`import cycle: ${path}`);
  });

  test("go through types as well", () => {
    const sources = tree(
      ["core/src/a.ts", 'import type { B } from "./b.ts";'],
      ["core/src/b.ts", 'import { a } from "./a.ts";'],
    );
    expect(cycles(sources)).toHaveLength(1);
  });

  test("need a way back: two ways to one file are no cycle", () => {
    const sources = tree(
      ["core/src/a.ts", 'import type { B } from "./b.ts";\nimport { c } from "./c.ts";'],
      ["core/src/b.ts", 'import { c } from "./c.ts";'],
      ["core/src/c.ts", "export const c = 1;"],
    );
    expect(cycles(sources)).toEqual([]);
  });
});

describe("ambient time and random numbers", () => {
  test.each([
    ["Date.now()", "now()"],
    ["new Date()", "now()"],
    ["performance.now()", "monotonicMs()"],
    ["process.hrtime.bigint()", "monotonicMs()"],
    ["setTimeout(f, 1)", "alarm()"],
    ["globalThis.setTimeout(f, 1)", "alarm()"],
    ["setInterval(f, 1)", "alarm()"],
    ["AbortSignal.timeout(5)", "alarm()"],
    ["setImmediate(f)", "endOfTurn()"],
    ["queueMicrotask(f)", "endOfTurn()"],
    ["process.nextTick(f)", "endOfTurn()"],
    ["Math.random()", "Random"],
    ["crypto.randomUUID()", "id source"],
    ["crypto.getRandomValues(a)", "Random"],
    ["`${Math.random()}`", "Random"],
    ['import { setTimeout as s } from "node:timers/promises"', "alarm()"],
  ])("%s is refused with its replacement", (code, instead) => {
    const [first] = findingsIn(ambient, "faces/service/src/a.ts", `const a = 1;\n${code};`);
    expect(first).toMatchObject({ line: 2, message: expect.stringContaining(instead) });
  });

  test.each([
    "// Date.now() is banned, and so is Math.random",
    "/** setTimeout */",
    'const a = "Math.random()";',
    "const a = `new Date()`;",
    "const a = /Date.now/u;",
    "clock.setTimeout(f);",
    "const report = { performance: 1, Date: 2 };",
    "Math.floor(random.next());",
  ])("%s is allowed", (code) => {
    expect(findingsIn(ambient, "core/src/a.ts", code)).toEqual([]);
  });

  test("the system clock, tests and tools may use them", () => {
    for (const path of [
      "core/src/time/system.ts",
      "core/src/a.test.ts",
      "tools/a.mjs",
      "bench/a.mjs",
    ]) {
      expect(findingsIn(ambient, path, "Date.now()")).toEqual([]);
    }
  });
});

describe("sizes", () => {
  const files = (...paths: string[]) => paths.map((path) => ({ path, text: "" }));
  const tree = files("core/src/a/one.ts", "core/src/a/two.ts", "core/src/b/three.ts");

  test("the product has no more files than before; tests and tools do not count", () => {
    const more = files("core/src/a/one.test.ts", "tools/four.mjs");
    expect(sizes([...tree, ...more], { files: 3, folders: 2 })).toEqual([]);
    expect(sizes(tree, { files: 2, folders: 2 })).toEqual([
      expect.objectContaining({ message: expect.stringContaining("3 files, at most 2") }),
    ]);
  });

  test("the product has no more folders than before", () => {
    expect(sizes(tree, { files: 3, folders: 1 })).toEqual([
      expect.objectContaining({ message: expect.stringContaining("2 folders, at most 1") }),
    ]);
  });
});

describe("folders", () => {
  test("do not import each other, not even types, and not through a subfolder", () => {
    const down = { path: "core/src/a/one.ts", text: 'import { two } from "./b/two.ts";' };
    const up = { path: "core/src/a/b/three.ts", text: 'import type { X } from "../four.ts";' };
    expect(mutualFolders([down])).toEqual([]);
    expect(mutualFolders([down, up])).toEqual([
      { path: down.path, line: 1, message: expect.stringContaining("import each other") },
      { path: up.path, line: 1, message: expect.stringContaining("import each other") },
    ]);
    expect(mutualFolders([down, { ...up, path: "core/src/a/b/three.test.ts" }])).toEqual([]);
  });
});

describe("purpose", () => {
  const sentence = "Backoff: how long a retry may wait.";

  test.each([
    ["no comment", "export const a = 1;"],
    ["a comment below", `import "./b.ts";\n/** ${sentence} */`],
    ["a line comment", `// ${sentence}\n`],
    ["an empty comment", "/** */"],
    ["a comment that is too short", "/** Backoff. */"],
    ["no period", "/** how long a retry may wait before */"],
    ["too many lines", `/**\n${` * ${sentence}\n`.repeat(9)} */`],
  ])("is missing in a file with %s", (_, text) => {
    expect(findingsIn(purpose, "core/src/a.ts", text)).toHaveLength(1);
  });

  test("has one to eight lines, also after a hashbang", () => {
    expect(findingsIn(purpose, "core/src/a.ts", `/** ${sentence} */\n`)).toEqual([]);
    expect(findingsIn(purpose, "tools/a.mjs", `#!/usr/bin/env node\n/** ${sentence} */`)).toEqual(
      [],
    );
    expect(findingsIn(purpose, "core/src/a.ts", `/**\n * ${sentence}\n *\n * Why.\n */`)).toEqual(
      [],
    );
  });
});

describe("names", () => {
  test.each([
    ["core/src/retryAfter.ts", "kebab-case"],
    ["core/src/Retry.ts", "kebab-case"],
    ["core/src/retry_after.ts", "kebab-case"],
    ["core/src/utils.ts", "vague"],
    ["core/src/helpers/a.ts", "vague"],
    ["faces/service/src/types.ts", "vague"],
    ["test/common.test.ts", "vague"],
    ["tools/misc.mjs", "vague"],
  ])("%s is refused", (path, message) => {
    expect(findingsIn(names, path, "")).toEqual([
      { path, line: 1, message: expect.stringContaining(message) },
    ]);
  });

  test.each([
    "core/src/decide/retry-after.ts",
    "vitest.config.ts",
    "core/src/decide/policy.testing.ts",
  ])("%s is accepted", (path) => expect(findingsIn(names, path, "")).toEqual([]));

  test("an index lists its exports, and there are no default exports", () => {
    const star = join("export", ' * from "./a.ts";');
    expect(findingsIn(names, "core/src/index.ts", star)).toHaveLength(1);
    const anonymous = join("export", " default 1;");
    expect(findingsIn(names, "core/src/a.ts", anonymous)).toHaveLength(1);
    expect(findingsIn(names, "vitest.config.ts", anonymous)).toEqual([]);
    expect(findingsIn(names, "core/src/a.ts", `// ${anonymous}`)).toEqual([]);
  });
});

describe("traces of one machine", () => {
  test.each([
    join("https://regi", "stry.npmjs.org/left-pad"),
    join("see /ho", "me/ada/redrive"),
    join('"/wo', 'rk/main/core"'),
    join("cd /ro", "ot/redrive"),
    join("/Us", "ers/ada/x"),
  ])("%s is found", (text) => {
    expect(findingsIn(traces, "docs/a.md", `one\n${text}`)).toMatchObject([{ line: 2 }]);
  });

  test.each([
    "https://example.com/home/page",
    "faces/service/work/x",
    "~/work/x",
    "npm install redrive",
    "GET /v1/tasks",
  ])("%s is not a trace", (text) => {
    expect(findingsIn(traces, "docs/a.md", text)).toEqual([]);
  });
});

describe("lockfiles", () => {
  const tool = {
    version: "2.0.0",
    dev: true,
    optionalDependencies: { "tool-linux-x64-musl": "2.0.0", "tool-darwin-arm64": "^2.0.0" },
  };
  const packages = {
    "": { dependencies: { tool: "2.0.0" } },
    "node_modules/tool": tool,
    "node_modules/tool/node_modules/tool-darwin-arm64": { version: "2.0.0" },
  };

  test("must have every dependency, at any level of node_modules", () => {
    const found = findingsIn(lockfile, "package-lock.json", JSON.stringify({ packages }));
    expect(found.map(({ message }) => message)).toEqual([
      expect.stringContaining("has no tool-linux-x64-musl, which node_modules/tool needs"),
    ]);
  });

  test("are completed from the platform in a package's name", () => {
    const result = completed({ packages });
    expect(result.packages["node_modules/tool-linux-x64-musl"]).toEqual({
      version: "2.0.0",
      dev: true,
      optional: true,
      cpu: ["x64"],
      libc: ["musl"],
      os: ["linux"],
    });
    expect(findingsIn(lockfile, "package-lock.json", JSON.stringify(result))).toEqual([]);
  });
});

describe("silenced tests", () => {
  const findings = (text: string) => findingsIn(silencedTests, "core/src/a.test.ts", text);

  test("are found: .only always, a skip without a reason", () => {
    expect(findings('test.only("a", f);')).toHaveLength(1);
    expect(findings('describe.skip("a", f);')).toHaveLength(1);
    expect(findings('test.skipIf(x)("a", f);')).toHaveLength(1);
    expect(findings('test.todo("a");')).toHaveLength(1);
    expect(findings('// skipped: no\ntest.skip("a", f);')).toHaveLength(1);
    expect(findings("test('a', (context) => context.skip());")).toHaveLength(1);
  });

  test("may be skipped with a reason", () => {
    expect(findings('// skipped: Windows has no signals\ntest.skipIf(x)("a", f);')).toEqual([]);
    expect(findings('context.skip("Windows has no signals");')).toEqual([]);
    expect(findings('// test.only("a")\nconst a = "test.only";')).toEqual([]);
  });
});
