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
  "engine/rate-claims",
  "engine/slow-start",
  "engine/suspects",
  "engine/overlapping-commits",
  "engine/commit",
  "engine/turn-queue",
  "engine/destination",
  "engine/unreadable-documents",
  "engine/limit-history",
  "engine/events",
  "engine/guard-saver",
  "engine/due-scan",
  "engine/maintenance",
  "engine/exchange.test",
  "engine/fleet",
  "engine/node",
  "engine/clock-steps",
  "engine/rescuer",
  "engine/run",
  "engine/refused-items",
  "engine/attempt-limits",
  "engine/service-retry-budget",
  "engine/settlement",
  "engine/scheduler",
  "engine/lane",
];

/** The tests of gRPC targets. */
const GRPC = ["deliver/grpc.test", "deliver/hostile-grpc.test", "deliver/session-pool.test"];

/** The tests of brokers. */
const BROKERS = ["deliver/broker", "deliver/hostile-amqp.test", "deliver/hostile-redis.test"];

/** Test files or folders of the service, by its files or folders. The first that fits counts. */
export const AREAS = [
  { folder: "stores/memory/", tests: ["stores/memory/"] },
  { folder: "stores/sqlite/", tests: ["stores/sqlite/"] },
  { folder: "bodies/", tests: ["bodies/"] },
  // The suite that all stores have, on a real server.
  { folder: "stores/postgres/", tests: ["stores/postgres/postgres-store.test"] },
  { folder: "stores/redis/", tests: ["stores/redis/redis-store.test"] },
  { folder: "engine/", tests: ENGINE },
  { folder: "time/", tests: ["time/"] },
  { folder: "deliver/address-guard.ts", tests: ["deliver/address-guard.test"] },
  { folder: "deliver/target.ts", tests: ["deliver/target.test", "deliver/address-guard.test"] },
  { folder: "deliver/grpc.ts", tests: GRPC },
  { folder: "deliver/amqp.ts", tests: BROKERS },
  { folder: "deliver/redis-stream.ts", tests: BROKERS },
  { folder: "deliver/broker", tests: BROKERS },
  { folder: "deliver/session-pool.ts", tests: [...GRPC, ...BROKERS] },
  { folder: "deliver/signing.ts", tests: ["deliver/signing.test"] },
  { folder: "deliver/response.ts", tests: ["deliver/redact.test", "deliver/responses.test"] },
  { folder: "deliver/", tests: ["deliver/"] },
  { folder: "http/", tests: ["http/"] },
  { folder: "intake/", tests: ["intake/"] },
  { folder: "operations/", tests: ["operations/"] },
];

/**
 * @param {string} file of the mutant
 * @param {import("./mutant.mjs").Mutant} mutant
 * @returns {readonly string[]}
 */
export function testsOf(file, { tests = [] }) {
  const area = AREAS.find(({ folder }) => file.startsWith(`${SERVICE}/${folder}`));
  const near = (area?.tests ?? []).map((path) => `${SERVICE}/${path}`);
  return [...near, ...tests];
}
