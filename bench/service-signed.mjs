/**
 * `node bench/service-signed.mjs`: measures how fast the service delivers due tasks whose header is
 * encrypted in the store and whose requests are signed, as a share of the rate without a key and
 * without signatures. Both take turns in one process, in many short rounds, because the speed of a shared
 * machine changes within seconds. The share of the processor time is for comparison. Limit: 0.8.
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { createRedrive } from "@redrive/service";
import { drain, fill } from "./service-load.mjs";
import { inFolder, median, setting, startSink } from "./service-parts.mjs";

const TASKS = setting("BENCH_TASKS", 3000);
const ROUNDS = setting("BENCH_ROUNDS", 31);
const MIN_SHARE = 0.8;

/** The same for both. Its value is a secret, so the service with a key encrypts it. */
const HEADERS = { authorization: "Bearer 0123456789abcdef0123456789abcdef" };

/** @typedef {import("@redrive/service").Redrive} Redrive */

const sink = await startSink();
await inFolder(async (folder) => {
  const plain = await createRedrive({ store: `sqlite:${join(folder, "plain.db")}` });
  const secured = await createRedrive({
    store: `sqlite:${join(folder, "secured.db")}`,
    encryptionKey: randomBytes(32).toString("base64"),
  });
  await secured.configure(sink.origin, {
    signingSecrets: [`whsec_${randomBytes(24).toString("base64")}`],
  });
  await measure(plain, secured);
  await plain.stop();
  await secured.stop();
});
sink.stop();

/** @typedef {{ rate: number, cpuUs: number }} Speed tasks a second, and processor time of a task */

/** @param {Redrive} plain @param {Redrive} secured */
async function measure(plain, secured) {
  /** @type {number[]} */
  const shares = [];
  /** @type {number[]} */
  const cpuShares = [];
  for (let n = 0; n <= ROUNDS; n++) {
    /** @type {Map<Redrive, Speed>} */
    const speeds = new Map();
    const order = n % 2 === 0 ? [plain, secured] : [secured, plain];
    for (const redrive of order) speeds.set(redrive, await round(redrive));
    const [own, other] = [
      /** @type {Speed} */ (speeds.get(secured)),
      /** @type {Speed} */ (speeds.get(plain)),
    ];
    console.log(
      `round ${n}: plain ${other.rate.toFixed(0)}/s, share ${(own.rate / other.rate).toFixed(3)}`,
    );
    if (n === 0) continue;
    shares.push(own.rate / other.rate);
    cpuShares.push(other.cpuUs / own.cpuUs);
  }
  const share = median(shares);
  const report = { bench: "signed drain", share, cpuShare: median(cpuShares), bar: MIN_SHARE };
  console.log(JSON.stringify(report));
  if (share < MIN_SHARE) process.exitCode = 1;
}

/** @param {Redrive} redrive @returns {Promise<Speed>} */
async function round(redrive) {
  await fill(redrive, sink.origin, TASKS, HEADERS);
  const start = process.cpuUsage();
  const rate = await drain(redrive, sink.origin, TASKS);
  const { user, system } = process.cpuUsage(start);
  return { rate, cpuUs: (user + system) / TASKS };
}
