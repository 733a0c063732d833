/** Doctor redis: checks the servers of a Redis store, one line for each setting that keeps tasks safe. */
import { inspectRedis, type RedisReport, storeName } from "@redrive/service";
import type { Check } from "./doctor-check.ts";

type Server = RedisReport["servers"][number];

export async function checkRedis(store: string): Promise<readonly Check[]> {
  const name = "store";
  try {
    const report = await inspectRedis(store);
    const [problem] = report.problems;
    const found = report.servers.map(({ address, version }) => `${address} (Redis ${version})`);
    const reached = `${found.join(", ")} can be reached`;
    const state = problem === undefined ? "ok" : "fail";
    return [
      {
        name,
        state,
        found: problem === undefined ? reached : beforeFix(problem),
        fix: fixOf(problem),
      },
      ...settingChecks(report),
      replicaCheck(report),
    ];
  } catch (error) {
    const found = `${storeName(store)}: ${(error as Error).message}`;
    return [{ name, state: "fail", found, fix: "start the server, or correct --store" }];
  }
}

/** A problem is a sentence, a colon and the repair. Addresses contain colons without a space. */
function beforeFix(problem: string): string {
  return problem.split(": ")[0] ?? problem;
}

function fixOf(problem: string | undefined): string {
  return problem?.split(": ").slice(1).join(": ") ?? "";
}

const SETTINGS = [
  ["appendonly", "appendonly", "CONFIG SET appendonly yes", ["yes"]],
  ["appendfsync", "appendfsync", "CONFIG SET appendfsync always", ["always"]],
  ["eviction", "maxmemoryPolicy", "CONFIG SET maxmemory-policy noeviction", ["noeviction"]],
] as const;

function settingChecks({ servers, durability }: RedisReport): readonly Check[] {
  return SETTINGS.map(([name, field, fix, good]) => {
    const values = [...new Set(servers.map(({ config }) => config?.[field] ?? "unknown"))];
    const accepted: readonly string[] =
      field === "appendfsync" && durability === "relaxed" ? [...good, "everysec"] : good;
    const isGood = values.every((value) => accepted.includes(value));
    if (isGood) return { name, state: "ok", found: values.join(", "), fix: "" };
    const state = values.includes("unknown") ? "warn" : "fail";
    return { name, state, found: values.join(", "), fix };
  });
}

/** Without replicas, the loss of a server loses its tasks, also with a synced log. */
function replicaCheck({ servers, replicas }: RedisReport): Check {
  const name = "replicas";
  const fewest = Math.min(...servers.map((server: Server) => server.replicas));
  const found = `${fewest} connected, and a write waits for ${replicas}`;
  if (fewest < replicas) {
    return {
      name,
      state: "fail",
      found,
      fix: "connect more replicas, or lower replicas in --store",
    };
  }
  if (replicas > 0) return { name, state: "ok", found, fix: "" };
  const fix = "add replicas=1 to --store: without it, a failover may lose acknowledged tasks";
  return fewest > 0 ? { name, state: "warn", found, fix } : { name, state: "ok", found, fix: "" };
}
