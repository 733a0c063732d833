/**
 * Areas: which tests must find the mutants of a folder. They are few and fast, so that a fault is
 * found by a test of the code that has it, and not by chance in a test of the whole service.
 */
import { SERVICE } from "./mutant.mjs";

/** The tests of the engine, without those that measure memory: they are slow, and check nothing else. */
const ENGINE = [
  "engine/engine.test",
  "engine/engine-holds",
  "engine/engine-store-failure",
  "engine/claim-ahead",
  "engine/guard-feedback",
  "engine/held-tasks",
  "engine/slow-start",
  "engine/suspects",
  "engine/overlapping-commits",
  "engine/commit/",
  "engine/destination/",
  "engine/events/",
  "engine/exchange.test",
  "engine/fleet",
  "engine/node/",
  "engine/run/",
  "engine/schedule/",
];

/** Test files or folders of the service, by its folders. The first folder that fits counts. */
const AREAS = [
  { folder: "stores/memory/", tests: ["stores/memory/"] },
  { folder: "stores/sqlite/", tests: ["stores/sqlite/"] },
  { folder: "bodies/", tests: ["bodies/"] },
  // The suite that all stores have, on a real server.
  { folder: "stores/postgres/", tests: ["stores/postgres/postgres-store.test"] },
  { folder: "stores/redis/", tests: ["stores/redis/redis-store.test"] },
  { folder: "engine/", tests: ENGINE },
  { folder: "time/", tests: ["time/"] },
  { folder: "deliver/address-guard/", tests: ["deliver/address-guard/"] },
  { folder: "deliver/grpc/", tests: ["deliver/grpc/"] },
  { folder: "deliver/brokers/", tests: ["deliver/brokers/"] },
  { folder: "deliver/sessions/", tests: ["deliver/grpc/", "deliver/brokers/"] },
  { folder: "deliver/signing.ts", tests: ["deliver/signing.test"] },
  { folder: "deliver/redact.ts", tests: ["deliver/redact.test", "deliver/responses.test"] },
  { folder: "deliver/", tests: ["deliver/"] },
  { folder: "http/", tests: ["http/"] },
  { folder: "intake/", tests: ["intake/"] },
  { folder: "operations/", tests: ["operations/"] },
];

/**
 * @param {import("./mutant.mjs").Mutant} mutant
 * @returns {readonly string[]}
 */
export function testsOf({ file, tests = [] }) {
  const area = AREAS.find(({ folder }) => file.startsWith(`${SERVICE}/${folder}`));
  const near = (area?.tests ?? []).map((path) => `${SERVICE}/${path}`);
  return [...near, ...tests];
}
