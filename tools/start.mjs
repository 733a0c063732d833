/**
 * `npm start`: installs and builds what is missing, then runs `redrive dev`, whose last line says
 * where it listens.
 */
import { spawn } from "node:child_process";
import { buildPackages } from "./setup/build.mjs";
import { exitOnFailure } from "./setup/failure.mjs";
import { installPackages } from "./setup/install.mjs";
import { requireNode } from "./setup/node-version.mjs";
import { whenOrphaned } from "./setup/orphan.mjs";
import { inRoot } from "./setup/root.mjs";

requireNode();
await exitOnFailure(async () => {
  await installPackages();
  await buildPackages();
});
runDev([inRoot("apps", "cli", "dist", "main.js"), "dev", ...process.argv.slice(2)]);

/**
 * Runs `redrive dev` in this terminal, forwards signals, and exits with its exit code. Ctrl-C
 * reaches it from the terminal too, which is harmless because it ignores a second signal.
 * @param {readonly string[]} args
 */
function runDev(args) {
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) {
    process.on(signal, () => child.kill(signal));
  }
  whenOrphaned(() => child.kill("SIGTERM"));
  child.on("exit", (code, signal) => {
    process.exitCode = code ?? (signal === null ? 1 : 128);
  });
}
