/** The packages as published: packed, installed into an empty folder, and used there. */
// needs: build
import { execFile, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { nodeScript, npm } from "../../tools/setup/command.mjs";
import { builtWorkspaces, root } from "../../tools/setup/root.mjs";

/** Takes ten seconds on an idle machine; several runs of npm take much longer on a busy one. */
const SET_UP_MS = 180_000;

const folder = mkdtempSync(join(tmpdir(), "redrive-packed-"));
const tarballs = join(folder, "tarballs");
const app = join(folder, "app");
const copy = join(folder, "clone");
afterAll(() => rmSync(folder, { recursive: true }));

/** Without the variables that `npm test` sets for this checkout. */
const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(?:npm_|NODE_OPTIONS$)/u.test(name)),
);

/** Returns the output of the program. Throws with its output on failure. */
async function run(
  { program, args }: { readonly program: string; readonly args: readonly string[] },
  cwd = app,
): Promise<string> {
  return (await promisify(execFile)(program, args, { cwd, maxBuffer: 1e8, env })).stdout;
}

const node = (...args: readonly string[]) => ({ program: process.execPath, args });
const workspaces = builtWorkspaces.flatMap((name) => ["--workspace", name]);

/**
 * Packing copies files from elsewhere in the checkout into the packages and removes them again. In a
 * copy this disturbs neither readers of the tree nor another run of this test.
 */
function copyClone(): void {
  const filter = (path: string) => basename(path) !== "node_modules";
  for (const name of ["package.json", "LICENSE", "core", "faces", "apps", "tools"]) {
    cpSync(join(root, name), join(copy, name), { recursive: true, filter });
  }
}

/** Copies third-party packages from the checkout, so that npm needs no network. */
async function copyDependencies(): Promise<void> {
  const list = await run(npm(["ls", "--omit=dev", "--all", "--parseable", ...workspaces]), root);
  for (const path of new Set(list.trim().split("\n"))) {
    const name = relative(root, path);
    if (!name.startsWith("node_modules/") || isOwn(name)) continue;
    const target = join(app, name);
    mkdirSync(dirname(target), { recursive: true });
    cpSync(path, target, { recursive: true });
  }
}

function isOwn(name: string): boolean {
  return name.includes("/@redrive/") || basename(name) === "redrive";
}

beforeAll(async () => {
  mkdirSync(tarballs);
  mkdirSync(join(app, "node_modules"), { recursive: true });
  writeFileSync(join(app, "package.json"), '{ "name": "app", "type": "module" }\n');
  copyClone();
  await run(npm(["pack", "--pack-destination", tarballs, ...workspaces]), copy);
  await copyDependencies();
  const files = readdirSync(tarballs).map((name) => join(tarballs, name));
  expect(files).toHaveLength(builtWorkspaces.length);
  await run(npm(["install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", ...files]));
}, SET_UP_MS);

test("redrive serve responds and serves its pages with everything they load", async () => {
  const bin = join(app, "node_modules", ".bin", "redrive");
  const child = spawn(bin, ["serve", "--port", "0", "--store", "sqlite:packed.db"], {
    cwd: app,
    env,
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const url = await new Promise<string>((resolve, reject) => {
    const lines = createInterface({ input: child.stdout });
    lines.on("line", (line) => {
      const { msg, url: readyUrl } = JSON.parse(line) as { msg: string; url?: string };
      if (msg.startsWith("Redrive is ready at ")) resolve(readyUrl ?? "");
    });
    lines.on("close", () => reject(new Error("the process ended before it was ready")));
  });
  const health = await fetch(`${url}/healthz`);
  expect([health.status, await health.json()]).toEqual([200, { status: "ok" }]);
  for (const path of ["/ui/", "/ui/simulator"]) {
    const page = await fetch(`${url}${path}`);
    const html = await page.text();
    expect([path, page.status]).toEqual([path, 200]);
    const parts = [...html.matchAll(/(?:src|href)="(\.\/[^"]+)"/gu)].map(([, part = ""]) => part);
    expect(parts.length).toBeGreaterThan(1);
    for (const part of parts) {
      const { status } = await fetch(new URL(part, `${url}/ui/`));
      expect([part, status]).toEqual([part, 200]);
    }
  }
});

test("the command line simulates, also on threads", async () => {
  const bin = join(app, "node_modules", "@redrive", "cli", "bin", "redrive.mjs");
  const report = JSON.parse(await run(node(bin, "sim", "lab", "coverage", "--json")));
  expect(report.ok).toBe(true);
});

/** All entry points of a package. */
function entriesOf(name: string): readonly string[] {
  const manifest = createRequire(import.meta.url)(join(root, name, "package.json")) as {
    readonly name: string;
    readonly exports?: Readonly<Record<string, unknown>>;
  };
  const entries = Object.keys(manifest.exports ?? {}).filter((entry) => !entry.includes("*"));
  return entries.map((entry) => `${manifest.name}${entry.slice(1)}`);
}

const entries = builtWorkspaces.flatMap(entriesOf);

/** Some bundlers set the condition `source`. Our sources are not published and use another condition. */
test.each(["node", "source"])("every entry can be imported under %s", async (condition) => {
  const lines = entries.map((entry) => `await import("${entry}");`);
  writeFileSync(join(app, "all.js"), `${lines.join("\n")}\nconsole.log("all there");\n`);
  expect(await run(node("--conditions", condition, "all.js"))).toBe("all there\n");
});

test("the packages include correct types", async () => {
  const names = entries.map((entry, index) => `import * as part${index} from "${entry}";`);
  const uses = entries.map((_, index) => `part${index}`).join(", ");
  const text = `${names.join("\n")}
import { schedule } from "@redrive/simulator";
export const all: readonly object[] = [${uses}];
export const sumMs: number = schedule({ maxAttempts: 3 }, { seed: 7 }).sumMs;
// @ts-expect-error: it is a number.
export const wrong: string = schedule({ maxAttempts: 3 }).sumMs;
`;
  writeFileSync(join(app, "use.ts"), text);
  const flags = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--types", ""];
  expect(await run(nodeScript("typescript/bin/tsc", [...flags, "use.ts"]))).toBe("");
});
