/** The built command as a person runs it: starts, answers, stops, and says what it did not get. */
// needs: build
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));

function redrive(...args: string[]) {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
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

test.each(["SIGTERM", "SIGINT"] as const)(
  "dev prints one ready line, answers there, and ends with 0 on %s",
  async (signal) => {
    const { child, output, ended } = redrive("dev", "--port", "0");
    await once(child.stdout, "data");
    const url = /^Redrive is ready at (http:\/\/127\.0\.0\.1:\d+\/)\n$/u.exec(output.text)?.[1];
    const response = await fetch(`${url}policies.json`);
    expect(await response.json()).toHaveProperty("policies.0.ceilingsMs");
    child.kill(signal);
    expect(await ended).toEqual([0, null]);
  },
);

test("a mistyped command exits with 2 and the nearest one", async () => {
  const { output, ended } = redrive("dve");
  expect(await ended).toEqual([2, null]);
  expect(output.text).toContain("Did you mean dev?");
});

test("a bad port exits with 2 and is quoted", async () => {
  const { output, ended } = redrive("dev", "--port", "http");
  expect(await ended).toEqual([2, null]);
  expect(output.text).toContain("'http'");
});

test("--help lists the commands", async () => {
  const { output, ended } = redrive("--help");
  expect(await ended).toEqual([0, null]);
  expect(output.text).toMatch(/^Usage: redrive[\s\S]*\n {2}dev /u);
});
