/**
 * `node bench/service-signed.mjs`: measures how fast the service delivers due tasks whose header is
 * encrypted in the store and whose requests are signed, as a share of the rate without a key and
 * without signatures. Both take turns in one process. Limit: 0.8.
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { createRedrive } from "@redrive/service";
import { drain, fill } from "./service-load.mjs";
import { inFolder, median, setting, startSink } from "./service-parts.mjs";

const TASKS = setting("BENCH_TASKS", 20_000);
const ROUNDS = setting("BENCH_ROUNDS", 7);
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

/** @param {Redrive} plain @param {Redrive} secured */
async function measure(plain, secured) {
  const shares = [];
  for (let n = 0; n <= ROUNDS; n++) {
    const speeds = new Map();
    const order = n % 2 === 0 ? [plain, secured] : [secured, plain];
    for (const redrive of order) speeds.set(redrive, await round(redrive));
    const share = speeds.get(secured) / speeds.get(plain);
    console.log(`round ${n}: plain ${speeds.get(plain).toFixed(0)}/s, share ${share.toFixed(3)}`);
    if (n > 0) shares.push(share);
  }
  const share = median(shares);
  console.log(JSON.stringify({ bench: "signed drain", share, bar: MIN_SHARE }));
  if (share < MIN_SHARE) process.exitCode = 1;
}

/** @param {Redrive} redrive @returns {Promise<number>} tasks a second */
async function round(redrive) {
  await fill(redrive, sink.origin, TASKS, HEADERS);
  return drain(redrive, sink.origin, TASKS);
}
