/**
 * The table of forbidden targets, rows 1 to 108, and the rows of hostile responses that need names (33, 34
 * and 38): a built `redrive serve` in public mode, real sockets and a real name server, in a network of
 * their own.
 */
// needs: build, iproute2
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeCertificate } from "../../faces/service/src/deliver/certificate.testing.ts";
import { expectLog } from "./expect-log.ts";
import { expectRow } from "./expect-row.ts";
import { namespaceArguments, runInNamespace } from "./namespace.ts";
import { REDIRECT_ROWS } from "./redirect-rows.ts";
import type { Results } from "./results.ts";
import { TARGET_ROWS } from "./target-rows.ts";
import { tlsRows } from "./tls-rows.ts";
import { ALL_ADDRESSES, ALLOWED, DENIED, PROXY } from "./world.ts";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "redrive-hostile-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const args = namespaceArguments(folder);

/** The process inside the namespace runs without Vitest, so its sources are bundled. */
async function bundled(): Promise<string> {
  await build({
    configFile: false,
    logLevel: "error",
    ssr: { noExternal: true, resolve: { conditions: ["redrive-source", "node"] } },
    resolve: { conditions: ["redrive-source", "node"] },
    build: {
      ssr: fileURLToPath(new URL("./inside-namespace.ts", import.meta.url)),
      outDir: folder,
      emptyOutDir: false,
      target: "node20",
      minify: false,
      rolldownOptions: { output: { entryFileNames: "inside.mjs" } },
    },
  });
  return join(folder, "inside.mjs");
}

let results: Results;
beforeAll(async () => {
  if (args === undefined) return;
  const command = [process.execPath, await bundled(), MAIN, folder];
  await runInNamespace(args, { folder, addresses: ALL_ADDRESSES, command });
  results = JSON.parse(readFileSync(join(folder, "results.json"), "utf8"));
});

const HOSTILE_ROWS = [
  ...tlsRows(makeCertificate({ name: "Test Authority" }), Date.now()),
  ...REDIRECT_ROWS,
];

// skipped: where neither root nor a user may create a network
describe.skipIf(args === undefined)("a target", () => {
  it.each(HOSTILE_ROWS.map((row, index) => ({ ...row, index })))(
    "that $does (row $row)",
    ({ index, ...row }) => expectRow(row, results.hostile[index]),
  );
});

const REFUSALS = { denied: "422 TARGET_DENIED", malformed: "400 INVALID_ARGUMENT" } as const;

// skipped: where neither root nor a user may create a network
describe.skipIf(args === undefined)("in public mode, the URL", () => {
  it.each(TARGET_ROWS.map((row, index) => ({ ...row, index })))(
    "$url is $expected (row $row)",
    ({ index, expected, attempts = 1, error = "" }) => {
      const seen = results.target[index];
      const isRefused = expected === "denied" || expected === "malformed";
      expect(seen?.summary).toBe(isRefused ? REFUSALS[expected] : expected);
      expect(seen?.attempts).toBe(isRefused ? 0 : attempts);
      expect(seen?.error ?? "").toContain(error);
      // Otherwise a caller could map the names of the internal network.
      if (expected.includes("target-denied")) expect(seen?.error).not.toMatch(/\d\.\d|::/);
    },
  );

  it("of another service needs that service's key (row 97)", () => {
    expect(results.other).toMatchObject({
      summary: "status 401, EXHAUSTED not-retryable",
      attempts: 1,
    });
  });

  it("is denied once the rule that allowed it is gone, also for a waiting task (row 99)", () => {
    const { before, after } = results.rules;
    expect(before.summary).toBe("success 200, SUCCEEDED succeeded");
    expect(after.summary).toBe("fault target-denied, EXHAUSTED target-denied");
    expect([after.attempts, results.hits[ALLOWED.address]]).toEqual([1, 1]);
  });

  it("is never reached through a proxy of the environment (row 100)", () => {
    expect(results.hits[PROXY.address]).toBeUndefined();
  });

  it("of a denied address gets no packet", () => {
    const reached = DENIED.filter((address) => results.hits[address] !== undefined);
    const loopback = Object.keys(results.hits).filter((address) => /^(127\.|::1$)/.test(address));
    expect([reached, loopback]).toEqual([[], []]);
  });
});

// skipped: where neither root nor a user may create a network
describe.skipIf(args === undefined)("after all rows, the service", () => {
  it("has stored a task for each create that it accepted, and no other", () => {
    const accepted = results.target.length - results.refused;
    const asked = results.hostile.filter(({ honest }) => honest !== "not asked").length;
    // One more: the task for the other service.
    expect(results.stored).toBe(accepted + results.hostile.length + asked + 1);
  });

  it("is healthy, has written only log lines, and ends in order", () => {
    expect(results.health).toBe(200);
    // Some versions of Node warn about variables of the environment.
    const errors = results.errors.replace(/^\((node:|Use `node).*\n/gm, "");
    expect([results.exitCode, errors]).toEqual([0, ""]);
    expectLog(results.log);
  });
});
