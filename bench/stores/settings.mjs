/**
 * Settings: the counts of the benchmark of the stores, and the settings of the servers and of the
 * contenders. Smaller counts are for trials; the published table uses the defaults.
 */
import { IN_FLIGHT, setting } from "../service-parts.mjs";

/** Jobs of each measurement. */
export const TASKS = setting("BENCH_TASKS", 60_000);
/** Jobs of each measurement of the first round, which is not counted. */
export const WARMUP = setting("BENCH_WARMUP", TASKS);
/** Interleaved rounds; the table has the medians. */
export const ROUNDS = setting("BENCH_ROUNDS", 3);
/** Jobs that are added to an idle queue, one after the other. */
export const LATENCIES = setting("BENCH_LATENCIES", 1_000);
/** Which parts run: `peers`, `fleet`, `destinations`, `retention`. */
export const PARTS = (process.env["BENCH_PARTS"] ?? "peers,fleet,destinations,retention").split(
  ",",
);
/** Which contenders run; empty: all. Separated by semicolons. */
export const ONLY = (process.env["BENCH_ONLY"] ?? "").split(";").filter((name) => name !== "");

/** Destinations of the measurement of claims. */
export const DESTINATIONS = [10, 100, 1_000, 10_000];

/** The measurements of a round. The raw limit is measured beside each delivery. */
export const STEPS = (
  process.env["BENCH_STEPS"] ?? "enqueue,drain,batches,drain,live,latency"
).split(",");

export const CALLERS = 64;
export const BATCH = 500;
/** A pause before each measured latency, so that the queue is idle. */
export const IDLE_MS = 3;

/** Connections of a pool, for every contender that lets us choose. */
export const POOL = 20;

/** As on a small dedicated server; fsync and synchronous_commit keep their default, which is on. */
export const POSTGRES_SETTINGS = ["shared_buffers=1GB", "max_wal_size=4GB", "max_connections=200"];
export const REDIS_SETTINGS = { appendfsync: "everysec" };

export { IN_FLIGHT };
