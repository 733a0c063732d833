/**
 * `npm run bench -- overload`: goodput of a server that 400 clients overload, with and without
 * `redrive/server`. The clients keep retrying; a response counts if it arrives within a second. Limits:
 * with the limiter at least 0.8 of the capacity, and at least three times the goodput without it.
 */
import { printVerdicts } from "./bars.mjs";
import { startBusyServer } from "./overload/busy-server.mjs";
import { runClients } from "./overload/clients.mjs";

const SERVER = { workers: 5, workMs: 20 };
const LOAD = { clients: 400, seconds: 10, warmUpSeconds: 5, timeoutMs: 1000 };

/** @param {boolean} limited */
async function measure(limited) {
  const server = await startBusyServer({ ...SERVER, limited });
  const report = await runClients({ url: server.url, ...LOAD });
  const { counts, capacity, limiter } = server;
  await server.close();
  const wastedShare = counts.wasted / Math.max(1, counts.executed);
  return { ...report, capacity, wastedShare, stats: limiter?.stats() };
}

const without = await measure(false);
const limited = await measure(true);
/** @param {string} name @param {Awaited<ReturnType<typeof measure>>} result */
const line = (name, { goodput, capacity, wastedShare, attempts }) =>
  `  ${name.padEnd(16)} ${goodput.toFixed(0).padStart(5)} of ${capacity} per second in time, ${(100 * wastedShare).toFixed(0)} % of the work wasted, ${attempts} attempts\n`;
if (!process.argv.includes("--json")) {
  process.stdout.write(
    `\n400 clients, capacity ${limited.capacity} per second (Node ${process.version})\n`,
  );
  process.stdout.write(line("without", without) + line("redrive/server", limited));
}
const share = limited.goodput / limited.capacity;
const gain = limited.goodput / Math.max(1, without.goodput);
printVerdicts("overload", [
  {
    bar: "goodput with the limiter: at least 0.8 of the capacity",
    got: share.toFixed(2),
    ok: share >= 0.8,
  },
  {
    bar: "goodput with the limiter: at least 3 times that without",
    got: gain.toFixed(1),
    ok: gain >= 3,
  },
]);
