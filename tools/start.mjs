/**
 * `npm start`: from a fresh clone to a running product. Installs and builds what is missing, then
 * hands over to `redrive dev`, whose last line says where it listens.
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
handOver([inRoot("apps", "cli", "dist", "main.js"), "dev", ...process.argv.slice(2)]);

/**
 * Runs the product with this terminal, passes signals on, and ends as it ends. A Ctrl-C reaches it
 * from the terminal by itself; a second copy does no harm, since stopping twice is stopping once.
 * @param {readonly string[]} args
 */
function handOver(args) {
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) {
    process.on(signal, () => child.kill(signal));
  }
  whenOrphaned(() => child.kill("SIGTERM"));
  child.on("exit", (code, signal) => {
    process.exitCode = code ?? (signal === null ? 1 : 128);
  });
}
