/**
 * `npm run bench -- fleet [--against <checkout>]`: what backlogs, idle nodes, retention and the exchange
 * of a fleet cost on PostgreSQL and on Redis. `BENCH_KINDS` and `BENCH_PARTS` select; the files in
 * `stores/` name their own settings. With `--against`, tasks per second beside another checkout instead.
 * Runs on Node 24.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { nodeProgram } from "../tools/setup/other-runtime.mjs";

const script = fileURLToPath(new URL("./stores/fleet-run.mjs", import.meta.url));
const child = spawn(await nodeProgram(24), [script, ...process.argv.slice(2)], {
  stdio: "inherit",
});
const [code] = await once(child, "exit");
process.exitCode = code ?? 1;
