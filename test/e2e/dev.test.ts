/** The built `redrive dev`: starts, responds, stops, and reports wrong usage. */
// needs: build
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, expect, onTestFinished, test } from "vitest";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "redrive-dev-"));
afterAll(() => rmSync(folder, { recursive: true }));

function redrive(...args: string[]) {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const output = { text: "" };
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output.text += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    output.text += text;
  });
  return { child, output, ended: once(child, "close") };
}

const READY = /^Redrive is ready at (http:\/\/127\.0\.0\.1:\d+\/)$/u;

/** Returns the URL of the ready line, which is the last. */
async function untilReady({ child }: ReturnType<typeof redrive>): Promise<string> {
  for await (const line of createInterface({ input: child.stdout })) {
    const url = READY.exec(line)?.[1];
    if (url !== undefined) return url;
  }
  throw new Error("the process ended before it was ready");
}

test.each(["SIGTERM", "SIGINT"] as const)(
  "dev prints one ready line last, responds at its URL, and exits with 0 on %s",
  async (signal) => {
    const dev = redrive("dev", "--port", "0");
    const url = await untilReady(dev);
    expect(dev.output.text.trimEnd().split("\n").at(-1)).toMatch(READY);
    const response = await fetch(`${url}policies.json`);
    expect(await response.json()).toHaveProperty("policies.0.ceilingsMs");
    dev.child.kill(signal);
    expect(await dev.ended).toEqual([0, null]);
  },
);

test("the commands that dev prints work: its task is accepted, its destination breaks and repairs", async () => {
  const dev = redrive("dev", "--port", "0");
  const url = await untilReady(dev);
  const [, task = "", address = ""] = /curl --json '(.*)' (\S+)/u.exec(dev.output.text) ?? [];
  expect(address).toBe(`${url}retry-tasks`);
  const headers = { "content-type": "application/json" };
  const response = await fetch(address, { method: "POST", body: task, headers });
  expect(response.status).toBe(202);
  const [, broken = ""] = /curl '(\S+)\/break\?for=10m'/u.exec(dev.output.text) ?? [];
  await fetch(`${broken}/break?for=10m`);
  expect((await fetch(`${broken}/orders`)).status).toBe(503);
  await fetch(`${broken}/repair`);
  expect(await (await fetch(broken)).json()).toMatchObject({ broken: false });
});

test("two dev servers run in one folder at the same time", async () => {
  const urls = await Promise.all(
    [0, 0].map((port) => untilReady(redrive("dev", "--port", `${port}`))),
  );
  for (const url of urls) expect((await fetch(`${url}readyz`)).status).toBe(200);
});

test("a mistyped command exits with 2 and suggests the nearest one", async () => {
  const { output, ended } = redrive("dve");
  expect(await ended).toEqual([2, null]);
  expect(output.text).toContain("Did you mean dev?");
});

test("an invalid port exits with 2 and is quoted", async () => {
  const { output, ended } = redrive("dev", "--port", "http");
  expect(await ended).toEqual([2, null]);
  expect(output.text).toContain("'http'");
});

test("wrong usage points to the help of the right command", async () => {
  const { output, ended } = redrive("tasks", "ls", "--staus", "PENDING");
  expect(await ended).toEqual([2, null]);
  expect(output.text).toContain("(Did you mean --status?)");
  expect(output.text).toContain("(redrive tasks ls --help shows the usage)");
});

test("--help lists the commands", async () => {
  const { output, ended } = redrive("--help");
  expect(await ended).toEqual([0, null]);
  expect(output.text).toMatch(/^Usage: redrive[\s\S]*\n {2}dev /u);
});
