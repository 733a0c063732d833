/**
 * `npm run bench -- idempotency`: the cost of a replay. A handler with idempotency keys sends a stored
 * response again; a bare handler reads the same row of the same store and sends the same response.
 * Limit: 1.3 times the bare handler, per store. Runs on Node 24, which loads our test servers.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { nodeProgram } from "../tools/setup/other-runtime.mjs";

const script = fileURLToPath(new URL("./idempotency/replay.mjs", import.meta.url));
const flags = ["--expose-gc", "--min-semi-space-size=64", "--max-semi-space-size=128"];
const args = [...flags, script, ...process.argv.slice(2)];
const child = spawn(await nodeProgram(24), args, { stdio: "inherit" });
const [code] = await once(child, "exit");
process.exitCode = code ?? 1;
