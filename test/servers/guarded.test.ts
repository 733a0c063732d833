/** Test servers never outlive the tests, however the tests end. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { guardedFolder, startGuarded } from "./guarded.ts";

const GUARD = fileURLToPath(new URL("../../tools/guard.mjs", import.meta.url));

/** A program that prints a line and runs forever. It can ignore SIGTERM. */
const server = (ignoresSigterm: boolean) =>
  `${ignoresSigterm ? 'process.on("SIGTERM", () => {});' : ""} console.log("up"); setInterval(() => {}, 1e6)`;

/** A test process: starts a guarded server, shares its output, and waits to be killed. */
const PARENT = `
const { spawn } = require("node:child_process");
const [guard, spec] = process.argv.slice(1);
spawn(process.execPath, [guard, spec], { detached: true, stdio: ["pipe", "inherit", "inherit"] });
`;

test("a server ends if the test process is killed, and its folder is removed", async () => {
  const folder = guardedFolder("killed");
  const spec = { folder, program: process.execPath, args: ["-e", server(false)] };
  const parent = spawn(process.execPath, ["-e", PARENT, GUARD, JSON.stringify(spec)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(parent.stdout, "data");
  parent.kill("SIGKILL");
  // The parent, the guard and the server all hold this pipe: it closes once all three are gone.
  parent.stdout.resume();
  await once(parent.stdout, "close");
  expect(existsSync(folder)).toBe(false);
});

test("stop ends the server and removes its files; a second stop changes nothing", async () => {
  const folder = guardedFolder("stopped");
  writeFileSync(join(folder, "data"), "x");
  const guarded = startGuarded({
    folder,
    program: process.execPath,
    args: ["-e", server(false)],
  });
  await guarded.waitFor(/up/u);
  await Promise.all([guarded.stop(), guarded.stop()]);
  expect(existsSync(folder)).toBe(false);
});

test("a server that ignores SIGTERM is killed", async () => {
  const folder = guardedFolder("ignores-sigterm");
  const guarded = startGuarded({
    folder,
    program: process.execPath,
    args: ["-e", server(true)],
    patienceMs: 100,
  });
  await guarded.waitFor(/up/u);
  await guarded.stop();
  expect(existsSync(folder)).toBe(false);
});

test("waitFor rejects with the log if the server ends by itself", async () => {
  const guarded = startGuarded({
    folder: guardedFolder("failed"),
    program: process.execPath,
    args: ["-e", 'console.error("cannot start"); process.exit(3)'],
  });
  await expect(guarded.waitFor(/up/u)).rejects.toThrow("cannot start");
});

test("a guard without a server removes its folder at stop", async () => {
  const folder = mkdtempSync(join(tmpdir(), "redrive-plain-"));
  const guard = startGuarded({ folder });
  await guard.stop();
  expect(existsSync(folder)).toBe(false);
});
