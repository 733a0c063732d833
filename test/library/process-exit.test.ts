/** Process exit: a process lives as long as its calls. Real child processes show it. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "rolldown";
import { afterAll, beforeAll, expect, test } from "vitest";

let folder = "";
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "redrive-exit-"));
  await build({
    input: fileURLToPath(new URL("../../faces/library/src/index.ts", import.meta.url)),
    resolve: { conditionNames: ["redrive-source"] },
    output: { file: join(folder, "redrive.mjs"), format: "esm" },
    platform: "node",
    logLevel: "silent",
  });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a program and returns its output and exit code. */
async function run(program: string): Promise<{ code: number | null; printed: string }> {
  const file = join(folder, `program-${programs++}.mjs`);
  writeFileSync(file, `import { retry, destination } from "./redrive.mjs";\n${program}`);
  const child = spawn(process.execPath, [file], { stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed += text;
  });
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { code, printed: printed.trim() };
}
let programs = 0;

/** Prints how long the process lives after this line, in whole ms. */
const LIVED = `
const startedMs = performance.now();
process.on("exit", () => console.log("lived", Math.floor(performance.now() - startedMs)));
`;

function livedMs(printed: string): number {
  return Number(/lived (\d+)/.exec(printed)?.[1]);
}

test("an attempt that never ends keeps the process alive until its timeout, and rejects", async () => {
  const { code, printed } = await run(`${LIVED}
    retry(() => new Promise(() => {}), { maxAttempts: 1, attemptTimeoutMs: 300 })
      .catch((error) => console.log(error.reason, error.cause.code));
  `);
  expect(code).toBe(0);
  expect(printed).toContain("attempts ATTEMPT_TIMEOUT");
  expect(livedMs(printed)).toBeGreaterThanOrEqual(300);
});

test("a wait between attempts keeps the process alive", async () => {
  const { code, printed } = await run(`
    const fail = ({ attempt }) => {
      if (attempt === 1) throw new Error("once");
      return "second";
    };
    retry(fail, { initialDelayMs: 100, jitterType: "NONE" }).then(console.log);
  `);
  expect({ code, printed }).toEqual({ code: 0, printed: "second" });
});

test("a process whose calls are done ends at once, even with long timeouts", async () => {
  const { code, printed } = await run(`${LIVED}
    const shop = destination("shop", { breaker: {}, hedge: { after: 60_000 } });
    for (let n = 0; n < 100; n++) await retry(() => n, { attemptTimeoutMs: 600_000 });
    await shop.run(() => new Promise((resolve) => setTimeout(resolve, 5)));
    await Promise.all(Array.from({ length: 50 }, () => shop.run(async () => 1)));
  `);
  expect(code).toBe(0);
  expect(livedMs(printed)).toBeLessThan(5000);
});

test("a process whose calls are aborted ends at once", async () => {
  const { code, printed } = await run(`${LIVED}
    const controller = new AbortController();
    const options = { signal: controller.signal, initialDelayMs: 60_000, totalBudgetMs: 600_000 };
    const calls = [
      retry(() => new Promise(() => {}), { signal: controller.signal }),
      retry(() => { throw new Error("down"); }, options),
    ];
    setImmediate(() => controller.abort());
    await Promise.allSettled(calls);
  `);
  expect(code).toBe(0);
  expect(livedMs(printed)).toBeLessThan(5000);
});
