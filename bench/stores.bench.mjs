/**
 * `npm run bench -- stores [--write]`: Redrive on PostgreSQL and on Redis beside pg-boss,
 * graphile-worker and BullMQ, on Node 24, which the peers need. Prints tables; `--write` also puts them
 * into docs/benchmarks.md. `bench/stores/settings.mjs` lists the variables that change the counts.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { nodeProgram } from "../tools/setup/other-runtime.mjs";

const script = fileURLToPath(new URL("./stores/run.mjs", import.meta.url));
const args = process.argv.slice(2);
const child = spawn(await nodeProgram(24), [script, ...args], { stdio: "inherit" });
const [code] = await once(child, "exit");
process.exitCode = code ?? 1;
