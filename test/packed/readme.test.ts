/** Follows the walkthrough of the README with the packed packages, and compares what is printed. */
// needs: packed
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { packedApp } from "../../tools/setup/packed.mjs";
import { inRoot } from "../../tools/setup/root.mjs";
import { env, folderInProject } from "./packed-project.ts";

const bins = join(packedApp, "node_modules", ".bin");

interface Step {
  readonly commands: readonly string[];
  readonly printed: string;
}

/** The pairs of blocks that the README marks with the name of this file: commands, then their output. */
function stepsOf(markdown: string): readonly Step[] {
  const pattern = /```sh no-run: \S*readme\.test\.ts[^\n]*\n(.*?)```\n\n```text\n(.*?)```/gsu;
  return [...markdown.matchAll(pattern)].map(([, commands = "", printed = ""]) => ({
    commands: commands.trim().split("\n"),
    printed,
  }));
}

interface Addresses {
  readonly service: string;
  readonly destination: string;
}

const DOCUMENTED: Addresses = {
  service: "http://127.0.0.1:7337",
  destination: "http://127.0.0.1:7437",
};

const moved = (text: string, from: Addresses, to: Addresses) =>
  text.replaceAll(from.service, to.service).replaceAll(from.destination, to.destination);

/** Without what differs between two runs: ids, times, durations, widths, and how often it was lucky. */
function comparable(text: string): string {
  return (
    text
      .replaceAll(/01[\da-f]{6}-[\da-f]{4}(?:-[\da-f]{4}){0,2}(?:-[\da-f]{12})?/gu, "<id>")
      .replaceAll(/\d\d:\d\d:\d\d/gu, "<time>")
      .replaceAll(/\d+(?:\.\d+)? (?:ms|s|min)\b/gu, "<duration>")
      // On a busy machine, attempts start late.
      .replaceAll(/, <duration> late/gu, "")
      .replaceAll(/\bjust now\b/gu, "<duration> ago")
      .replaceAll(/\s+/gu, " ")
      .trim()
  );
}

/** A task that is attempted several times may be found after any of these attempts. */
function withoutCounts(text: string): string {
  return text
    .replaceAll(/\d+ attempts?\b|(?<=[Aa]ttempt )\d+/gu, "<n>")
    .replaceAll(/ It had waited: <duration> policy\./gu, "")
    .replaceAll(/(?: \d <duration> policy <time> <duration> status 503)+/gu, " <more attempts>")
    .replaceAll(/\d <duration> policy <time> <duration> success/gu, "<last attempt> success");
}

/** Starts `redrive dev` on free ports, and returns its addresses. */
async function startDev(cwd: string): Promise<Addresses> {
  const child = spawn(join(bins, "redrive"), ["dev", "--port", "0"], { cwd, env });
  onTestFinished(() => void child.kill("SIGKILL"));
  let destination = "";
  for await (const line of createInterface({ input: child.stdout })) {
    destination ||= /http:\S+(?=\/orders)/u.exec(line)?.[0] ?? "";
    const ready = /^Redrive is ready at (\S+)\/$/u.exec(line);
    if (ready?.[1] !== undefined) return { service: ready[1], destination };
  }
  throw new Error("redrive dev ended before it was ready");
}

async function runShell(command: string, cwd: string, url: string): Promise<string> {
  const path = `${bins}${delimiter}${env["PATH"]}`;
  const child = spawn("sh", ["-c", command], {
    cwd,
    env: { ...env, PATH: path, REDRIVE_URL: url, COLUMNS: "100" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let printed = "";
  for await (const chunk of child.stdout) printed += chunk;
  return printed;
}

test("every line of the walkthrough prints what the README says", async () => {
  const cwd = folderInProject();
  const addresses = await startDev(cwd);
  const steps = stepsOf(readFileSync(inRoot("README.md"), "utf8"));
  expect(steps.length).toBeGreaterThanOrEqual(5);
  for (const { commands, printed } of steps) {
    let output = "";
    for (const command of commands) {
      output += await runShell(moved(command, DOCUMENTED, addresses), cwd, addresses.service);
    }
    const shown = comparable(moved(output, addresses, DOCUMENTED));
    expect(withoutCounts(shown), commands.join("\n")).toBe(withoutCounts(comparable(printed)));
  }
});
