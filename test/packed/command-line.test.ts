/** The packed command line, installed into an empty project and used there. */
// needs: packed
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { packedApp } from "../../tools/setup/packed.mjs";
import { env, folderInProject, node, run } from "./packed-project.ts";

const bin = join(packedApp, "node_modules", ".bin", "redrive");

test("redrive serve responds and serves its pages with everything they load", async () => {
  const cwd = folderInProject();
  const args = ["serve", "--port", "0", "--store", "sqlite:packed.db"];
  const child = spawn(bin, args, { cwd, env });
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
  const report = JSON.parse(await run(node(bin, "sim", "lab", "coverage", "--json"), packedApp));
  expect(report.ok).toBe(true);
});

/** A project with only the library, as `npm install redrive` creates it. */
function libraryProject(): string {
  const folder = mkdtempSync(join(tmpdir(), "redrive-library-only-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of ["redrive", join("@redrive", "core")]) {
    const from = join(packedApp, "node_modules", name);
    cpSync(from, join(folder, "node_modules", name), { recursive: true });
  }
  return folder;
}

const LIBRARY_BIN = join("node_modules", "redrive", "bin", "redrive.mjs");

test("with only the library, the command names the package to install", async () => {
  const failure = await run(node(LIBRARY_BIN, "--help"), libraryProject()).catch(String);
  expect(failure).toContain("Run `npx @redrive/cli`, or install it: `npm install @redrive/cli`.");
});

test("with both packages, the command of the library is the same command line", async () => {
  const [own, delegated] = await Promise.all([
    run(node(bin, "--version"), packedApp),
    run(node(join(packedApp, LIBRARY_BIN), "--version"), packedApp),
  ]);
  expect(delegated).toBe(own);
});
