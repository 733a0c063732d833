/** The built simulation commands, each in its own process, with pipes for output. */
// needs: build
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { coverage, schedule } from "@redrive/simulator";
import { afterAll, expect, onTestFinished, test } from "vitest";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "redrive-e2e-"));
afterAll(() => rmSync(folder, { recursive: true }));

interface Ended {
  readonly out: string;
  readonly err: string;
  readonly code: number;
}

async function redrive(line: string, env: NodeJS.ProcessEnv = {}, input = ""): Promise<Ended> {
  const { COLUMNS: _, FORCE_COLOR: __, NO_COLOR: ___, ...rest } = process.env;
  const child = spawn(process.execPath, [MAIN, ...line.split(" ")], { env: { ...rest, ...env } });
  onTestFinished(() => void child.kill("SIGKILL"));
  const written = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (text) => {
    written.out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    written.err += text;
  });
  child.stdin.end(input);
  const [code] = await once(child, "close");
  return { ...written, code };
}

/** The modules that are loaded with a module of the build, without those of `import()`. */
function loadedWith(path: string, found = new Set<string>()): ReadonlySet<string> {
  if (found.has(path)) return found;
  found.add(path);
  if (!path.startsWith("/")) return found;
  const names = readFileSync(path, "utf8").matchAll(/^(?:import|export)\s[^;"]*"([^"]+)";/gmu);
  for (const [, name = ""] of names) {
    loadedWith(name.startsWith(".") ? join(dirname(path), name) : name, found);
  }
  return found;
}

test("the service is loaded only by the commands that need it, so the others start quickly", () => {
  const loaded = [...loadedWith(fileURLToPath(new URL("../dist/main.js", `file://${MAIN}`)))];
  expect(loaded).toContain("@redrive/service/client");
  expect(loaded.filter((name) => /^@redrive\/service(?!\/client)/u.test(name))).toEqual([]);
});

test("schedule prints the simulator's numbers, and the printed command repeats them", async () => {
  const line = "schedule --equal --base 200ms --cap 20s -n 6 --outage 5s --seed 7";
  const policy = {
    jitterType: "EQUAL",
    initialDelayMs: 200,
    maxDelayMs: 20_000,
    maxAttempts: 6,
  } as const;
  const { out, code } = await redrive(`${line} --json`);
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({
    schedule: schedule(policy, { seed: 7 }),
    coverage: coverage(policy, 5000, { seed: 7 }),
  });
  const first = await redrive(line);
  const replayCommand = /repeat: redrive (.*)/u.exec(first.out)?.[1] ?? "";
  expect((await redrive(replayCommand)).out).toBe(first.out);
});

test("output to a pipe has no colors unless forced, and takes its width from COLUMNS", async () => {
  const line = "sim run load-spike";
  const { out, err } = await redrive(line, { COLUMNS: "60" });
  expect(err).toBe("");
  expect(out).not.toContain("\u001b");
  for (const one of out.split("\n").slice(1)) expect(one.length).toBeLessThanOrEqual(60);
  expect((await redrive(line, { FORCE_COLOR: "1" })).out).toContain("\u001b[");
  expect((await redrive(line, { FORCE_COLOR: "1", NO_COLOR: "1" })).out).not.toContain("\u001b");
});

test("labs run on threads and print one line each to a log", async () => {
  const { out, err, code } = await redrive("sim lab coverage budgets");
  expect(code).toBe(0);
  expect(out).toContain("17 results, all within tolerance.");
  expect(err.trimEnd().split("\n").sort()).toEqual([
    expect.stringMatching(/^lab budgets: ok, [12] of 2$/u),
    expect.stringMatching(/^lab coverage: ok, [12] of 2$/u),
  ]);
});

test.each([
  ["schedule --base 20", "option '--base <duration>' argument '20' is invalid"],
  ["schedule --preset read --base 1s", "cannot be used with option '--base <duration>'"],
  ["schedule --preset intractive", 'Did you mean "interactive"?'],
  ["schedule --base 30s --cap 20s", "--cap: maxDelayMs must be at least initialDelayMs"],
  ["sim run failovr", 'Did you mean "failover"?'],
  ["sim run nowhere.json", 'cannot read "nowhere.json": there is no such file'],
  ["sim lab oc", 'Did you mean "occ"?'],
  ["sim hrd", "Did you mean herd?"],
  ["advise --idempotent maybe", "Must be one of yes, key, no."],
])("`redrive %s` exits with 2 and says %j", async (line, message) => {
  const { err, code, out } = await redrive(line);
  expect(err).toContain(message);
  expect([code, out]).toEqual([2, ""]);
});

test("lint exits with 1 on errors and with 3 if some files could not be read", async () => {
  const path = join(folder, "tiers.json");
  writeFileSync(path, '{"tiers":[{"policy":{"maxAttempts":4}},{"policy":{"maxAttempts":4}}]}');
  expect((await redrive(`policies lint ${path}`)).code).toBe(1);
  expect((await redrive(`policies lint ${path} ${folder}/none.json`)).code).toBe(3);
});

test("a policy can come from standard input, and a chart goes to a file", async () => {
  const svg = join(folder, "schedule.svg");
  const line = `schedule --policy-file - --svg ${svg}`;
  const { out, code } = await redrive(line, {}, '{"policyId":"mine","maxAttempts":3}');
  expect(code).toBe(0);
  expect(out).toContain("mine: full jitter");
  expect(readFileSync(svg, "utf8")).toContain("</svg>");
});

/** Runs a command with one stream closed. Returns the exit code and the text of the other stream. */
async function unread(line: string, stream: "stdout" | "stderr"): Promise<[number, string]> {
  const child = spawn(process.execPath, [MAIN, ...line.split(" ")]);
  onTestFinished(() => void child.kill("SIGKILL"));
  child[stream].destroy();
  let text = "";
  child[stream === "stdout" ? "stderr" : "stdout"].setEncoding("utf8").on("data", (more) => {
    text += more;
  });
  const [code] = await once(child, "close");
  return [code, text];
}

test("a closed pipe is not a failure and does not change the exit code", async () => {
  expect(await unread("sim run failover --csv", "stdout")).toEqual([0, ""]);
  const path = join(folder, "nested.json");
  writeFileSync(path, '{"tiers":[{"policy":{"maxAttempts":4}},{"policy":{"maxAttempts":4}}]}');
  expect(await unread(`policies lint ${path}`, "stdout")).toEqual([1, ""]);
  expect(await unread("sim run nowhere", "stderr")).toEqual([2, ""]);
});

test("every command shows examples in its help", async () => {
  for (const command of ["schedule", "sim herd", "sim lab", "advise", "policies lint"]) {
    const { out, code } = await redrive(`${command} --help`);
    expect(code).toBe(0);
    expect(out).toMatch(/\nExamples:\n {2}redrive /u);
  }
});
