/**
 * `npm run bench -- consume`: consumers of `redrive/consume` beside plain loops of the broker's client,
 * with a real Redis and, if it is installed, a real RabbitMQ. It runs on Node 24, which loads the servers
 * of the tests. `BENCH_MESSAGES` and `BENCH_ROUNDS` change the counts.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { nodeProgram } from "../tools/setup/other-runtime.mjs";

const script = fileURLToPath(new URL("./consume/run.mjs", import.meta.url));
const child = spawn(await nodeProgram(24), ["--expose-gc", script, ...process.argv.slice(2)], {
  stdio: "inherit",
});
const [code] = await once(child, "exit");
process.exitCode = code ?? 1;
