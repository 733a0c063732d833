/** Child: starts the process of a contender and asks it for measurements, one at a time. */
import { fork } from "node:child_process";
import { once } from "node:events";

const SCRIPT = new URL("./contender.mjs", import.meta.url);
const STOP_MS = 10_000;

/** @typedef {Awaited<ReturnType<typeof startContender>>} Contender */

/**
 * @param {string} name for messages
 * @param {string} module in this folder
 * @param {string} url of the store
 * @param {string} origin of the sink
 * @param {URL} [script] of another checkout
 */
export async function startContender(name, module, url, origin, script = SCRIPT) {
  const profile = process.env["BENCH_PROFILE"] === name ? ["--cpu-prof"] : [];
  const child = fork(script, [module, url, origin], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    execArgv: profile,
  });
  const failed = once(child, "exit").then(([code]) => {
    throw new Error(`${name} ended with ${code}`);
  });
  failed.catch(() => {});
  const reply = async () => {
    const [message] = await Promise.race([once(child, "message"), failed]);
    if (message.error !== undefined) throw new Error(`${name}: ${message.error}`);
    return message;
  };
  await reply();
  return {
    name,
    /** @param {string} measurement @param {number} [count] @returns {Promise<{ result: any, cpuMs: number }>} `cpuMs`: CPU time of the process */
    measure(measurement, count = 0) {
      child.send({ name: measurement, count });
      return reply();
    },
    async stop() {
      child.disconnect();
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
      await failed.catch(() => {});
      clearTimeout(timer);
    },
  };
}
