/** Scenarios: the files of the package, each with a pinned trace hash. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { simulate, traceHash } from "../worlds/simulate.ts";
import { checkScenario } from "./scenario-document.ts";
import { scenarios } from "./scenarios.ts";

const FOLDER = new URL("../../scenarios/", import.meta.url);

/** A hash over every event with seed 1. They change only with the engine or the scenario. */
const HASHES: Readonly<Record<string, string>> = {
  failover: "6dd291fc",
  "failover-no-jitter": "aa8b5bdf",
  "failover-decorrelated": "6749c54d",
  "open-unbounded": "651bd4a8",
  "open-bounded": "3ceb5565",
  "failover-warm-up": "191aea5c",
  metastable: "bf79c254",
  brownout: "d7904709",
  "rate-limited": "aff7e5e7",
  "slow-dependency": "d25e3f32",
  "load-spike": "cd6799d7",
  "one-shard-down": "de0cc10d",
  "hedged-reads": "3b7ac8cd",
  "ladder-0-plain": "d866c873",
  "ladder-1-jitter": "683bda28",
  "ladder-2-budget": "08bbbe6e",
  "ladder-3-breaker": "4afa7f84",
  "ladder-4-concurrency": "385b4175",
  "ladder-5-one-layer": "385b4175",
  "ladder-one-layer-alone": "52732c69",
  contention: "27062ffb",
  "queue-visibility": "661bbb6a",
  "queue-commit": "35e8ff57",
  "queue-poison": "39f06f23",
};

describe("scenarios", () => {
  it("are valid documents, each under its name", () => {
    for (const [name, scenario] of Object.entries(scenarios)) {
      expect(checkScenario(scenario), name).toEqual([]);
      expect(scenario.name).toBe(name);
    }
  });

  it("equal the files of scenarios/", () => {
    const files = readdirSync(FOLDER).map((file) => {
      const document: unknown = JSON.parse(readFileSync(new URL(file, FOLDER), "utf8"));
      return [file.replace(/\.json$/, ""), document];
    });
    expect(Object.fromEntries(files)).toEqual(scenarios);
  });

  it.each(Object.keys(HASHES))("%s has the same trace hash in every JavaScript engine", (name) => {
    const scenario = scenarios[name];
    if (scenario === undefined) throw new Error(`no scenario ${name}`);
    expect(traceHash(scenario, 1)).toBe(HASHES[name]);
  });

  it("each have a pinned trace hash", () => {
    expect(Object.keys(HASHES)).toEqual(Object.keys(scenarios));
  });

  it("of the ladder show that only a budget ends the collapse, and a breaker and a limit shorten it", () => {
    const recovery = (name: string) => {
      const scenario = scenarios[name];
      if (scenario === undefined) throw new Error(`no scenario ${name}`);
      return simulate(scenario, { seed: 1 });
    };
    const rungs = [
      "0-plain",
      "1-jitter",
      "2-budget",
      "3-breaker",
      "4-concurrency",
      "5-one-layer",
    ].map((rung) => recovery(`ladder-${rung}`));
    const [plain, jitter, budget, breaker, limit, oneLayer] = rungs.map((rung) => rung.recoveryMs);
    expect([plain, jitter]).toEqual([null, null]);
    expect(rungs[0]?.verdict).toBe("never recovers: 150 x 9 > 250");
    expect(budget).toBeGreaterThan(breaker as number);
    expect(breaker).toBeGreaterThan(limit as number);
    expect(oneLayer).toBeLessThanOrEqual(limit as number);
    expect(recovery("ladder-one-layer-alone").recoveryMs).toBeNull();
  });
});
