/**
 * `npm run bench -- consumers [--against <checkout>]`: consumers of `redrive/consume` under an hour of
 * steady traffic, some of which always fails, through an outage of ten minutes, and in fleets, in virtual time,
 * on brokers in memory (`test/servers/scenario`). It takes about half an hour on two cores, and as long again
 * for another checkout. `BENCH_MINUTES`, `BENCH_BROKER` and `BENCH_CASE` shorten it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { nodeProgram } from "../tools/setup/other-runtime.mjs";

const script = fileURLToPath(new URL("./consume/traffic.mjs", import.meta.url));
const args = process.argv.slice(2);
const child = spawn(await nodeProgram(24), [script, ...args], { stdio: "inherit" });
const [code] = await once(child, "exit");
process.exitCode = code ?? 1;
