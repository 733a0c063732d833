/** The CLI prints exactly the numbers that the simulator computes, for any seed. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { virtualClock } from "@redrive/core";
import {
  advise,
  type CallsDocument,
  coverage,
  herd,
  replay,
  runLab,
  scenarios,
  schedule,
  simulate,
} from "@redrive/simulator";
import { decodeRun } from "@redrive/simulator/share";
import { afterAll, describe, expect, test } from "vitest";
import { fakeTerminal, redrive, redriveJson } from "../program.testing.ts";
import { presentLabs } from "./lab.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-cli-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (name: string, text: string) => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};

const asJson = (value: unknown) =>
  JSON.parse(
    JSON.stringify(value, (_, part) => (part instanceof Float64Array ? Array.from(part) : part)),
  );

const CURVE = {
  jitterType: "FULL",
  initialDelayMs: 200,
  maxDelayMs: 20_000,
  maxAttempts: 6,
} as const;

describe("schedule", () => {
  const line = "schedule --full --base 200ms --cap 20s -n 6 --outage 3s --seed 7";

  test("has the simulator's numbers", async () => {
    const json = await redriveJson<object>(line);
    expect(json).toEqual({
      seed: 7,
      policy: CURVE,
      schedule: asJson(schedule(CURVE, { seed: 7 })),
      outageMs: 3000,
      coverage: coverage(CURVE, 3000, { seed: 7 }),
    });
  });

  test("prints the seed first, one line per attempt, and the coverage last", async () => {
    const { out } = await redrive(line);
    const lines = out.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^seed 7/u);
    expect(lines.filter((one) => /^ {6}[1-6] /u.test(one))).toHaveLength(6);
    expect(lines.at(-1)).toMatch(/^covers {2}[\d.]+ % of the calls survive an outage of 3 s/u);
    for (const one of lines.slice(2)) expect(one.length).toBeLessThanOrEqual(80);
  });

  test("fits the terminal even if a wait has many digits", async () => {
    const { out } = await redrive("schedule --full --base 24h --cap 24h -n 30 --total 8760h");
    expect(out).toMatch(/\d{3}\.\d{2} min/u);
    for (const one of out.split("\n").slice(2)) expect(one.length).toBeLessThanOrEqual(80);
  });

  test("explains an early end", async () => {
    const { out } = await redrive("schedule --none --base 10s -n 9");
    expect(out.replace(/\s+/gu, " ")).toContain(
      "Gives up after attempt 2 of 9: the next wait would exceed the total of 30 s.",
    );
  });

  test("says how many calls were simulated, unless the policy has no jitter", async () => {
    expect((await redrive(line)).out).toContain("(20,000 tried)");
    expect((await redrive("schedule --none -n 4")).out).not.toContain("tried");
  });

  test("writes CSV, an SVG file and a link to the same run", async () => {
    const { out } = await redrive(`${line} --csv`);
    expect(out.split("\n")[0]).toBe("attempt,waitMs,lowMs,highMs,ceilingMs,startsAtMs");
    const svg = join(folder, "schedule.svg");
    const { err, out: text } = await redrive(`${line} --svg ${svg} --link`);
    expect(err).toBe(`wrote ${svg}\n`);
    expect(readFileSync(svg, "utf8")).toMatch(/^<svg [\s\S]*<\/svg>\n$/u);
    const hash = /#(\S+)/u.exec(text)?.[1] ?? "";
    expect(decodeRun(hash)).toEqual({
      run: { view: "curve", seed: 7, policy: CURVE, outageMs: 3000 },
    });
  });
});

describe("sim herd", () => {
  test("has the simulator's numbers, with the same window for all strategies", async () => {
    const json = await redriveJson<{ strategies: unknown[]; windowMs: number }>(
      "sim herd -N 1000 --compare none,full --seed 7",
    );
    const policy = {
      maxAttempts: 6,
      initialDelayMs: 100,
      maxDelayMs: 3000,
      jitterType: "FULL",
    } as const;
    const expected = herd(policy, { clients: 1000, seed: 7, windowMs: 10 });
    expect(json.windowMs).toBe(10);
    expect(json.strategies[1]).toEqual({ name: "full", policy, herd: asJson(expected) });
  });

  test("prints peak and window within the width of the terminal", async () => {
    const { out } = await redrive("sim herd -N 1000 --window 20ms", { width: 60 });
    expect(out).toMatch(/none: peak 1,000 \(100 % of the clients\) at 100 ms/u);
    expect(out.replace(/\s+/gu, " ")).toContain("arrivals in windows of 20 ms");
    for (const line of out.split("\n").slice(3)) expect(line.length).toBeLessThanOrEqual(60);
  });

  test("compares up to six strategies and refuses a seventh", async () => {
    const six = "none,full,equal,decorrelated,linear,fixed";
    const json = await redriveJson<{ strategies: unknown[] }>(`sim herd -N 10 --compare ${six}`);
    expect(json.strategies).toHaveLength(6);
    const { err, code } = await redrive(`sim herd -N 10 --compare ${six},immediate`);
    expect([err, code]).toEqual(["error: --compare must name 1 to 6 strategies, got 7\n", 2]);
  });

  test("suggests the nearest strategy", async () => {
    const { err, code } = await redrive("sim herd --compare none,ful");
    expect([err, code]).toEqual([
      'error: --compare: unknown strategy "ful". Did you mean "full"?\n',
      2,
    ]);
  });
});

describe("sim failover, run and ladder", () => {
  test("the default failover is the built-in scenario", async () => {
    const json = await redriveJson<{ strategies: { name: string; report: object }[] }>(
      "sim failover --compare full,decorrelated --seed 7",
    );
    const { scenario: _, ...shipped } = asJson(simulate(scenarios["failover"]!, { seed: 7 }));
    expect(json.strategies[0]?.report).toMatchObject(shipped);
  });

  test("the guards of a destination document take part in a failover, and a total loss is no recovery", async () => {
    const policy = { maxAttempts: 12, initialDelayMs: 100, maxDelayMs: 20_000 };
    const breaker = { minCalls: 1, openMs: 86_400_000, maxOpenMs: 86_400_000 };
    const path = file("stuck.json", JSON.stringify({ policy, breaker }));
    const line = `sim failover -N 50 --compare full --policy-file ${path} --seed 7`;
    interface Side {
      readonly report: { readonly verdict: string; readonly reasons: Record<string, number> };
    }
    const { strategies } = await redriveJson<{ strategies: readonly Side[] }>(line);
    const reports = strategies.map(({ report }) => report);
    expect(reports[1]?.reasons).toEqual({ "circuit-open": 50 });
    expect(reports[1]?.verdict).toBe("no call succeeds: circuit-open");
    expect(reports[0]?.verdict).toContain("all done");
    // Where no guards are simulated, the command says so.
    const note = `note: ${path}: its guards (breaker) have no effect here\n`;
    expect((await redrive(`sim herd -N 50 --compare full --policy-file ${path}`)).err).toBe(note);
    expect((await redrive(`schedule --policy-file ${path}`)).err).toBe(note);
  });

  test("run has the simulator's numbers, by name and by file", async () => {
    const scenario = scenarios["queue-poison"]!;
    const expected = asJson(simulate(scenario, { seed: 7 }));
    expect(await redriveJson("sim run queue-poison --seed 7")).toEqual(expected);
    const path = file("mine.json", JSON.stringify(scenario));
    expect(await redriveJson(`sim run ${path} --seed 7`)).toEqual(expected);
  });

  test("run prints the verdict and marks the phases", async () => {
    const { out } = await redrive("sim run brownout");
    expect(out).toContain(simulate(scenarios["brownout"]!).verdict);
    expect(out).toMatch(/▀+\n +partial from 20 s to 40 s/u);
  });

  test("run suggests the nearest name and quotes the wrong field of a file", async () => {
    expect((await redrive("sim run failovr")).err).toContain('Did you mean "failover"?');
    const path = file("bad.json", '{"clients":{"kind":"OPEN","ratePerSecnd":3}}');
    const { err, code } = await redrive(`sim run ${path}`);
    expect(err).toContain('did you mean "ratePerSecond"?');
    expect(code).toBe(2);
  });

  test("run refuses a policy and names the commands that take it", async () => {
    for (const text of ['{"policyId":"mine","maxAttempts":3}', '{"policy":"payment"}']) {
      const path = file("policy.json", text);
      const { err, code } = await redrive(`sim run ${path}`);
      expect(err).toContain(
        `is a policy, not a scenario: use \`redrive sim failover --policy-file ${path}\``,
      );
      expect(code).toBe(2);
    }
  });

  test("run tries a policy in a scenario and keeps the guards that its file does not set", async () => {
    const scenario = scenarios["brownout"] as CallsDocument;
    const [tier] = scenario.tiers ?? [];
    const run = (destination: object) =>
      asJson(simulate({ ...scenario, tiers: [{ ...tier, destination }] }, { seed: 7 }));
    const { retryBudget } = tier?.destination ?? {};
    const policy = { maxAttempts: 6 };
    const path = file("policy.json", JSON.stringify(policy));
    expect(await redriveJson(`sim run brownout --policy-file ${path} --seed 7`)).toEqual(
      run({ policy, retryBudget }),
    );
    const own = { policy, retryBudget: { ratio: 0.01 } };
    file("policy.json", JSON.stringify(own));
    expect(await redriveJson(`sim run brownout --policy-file ${path} --seed 7`)).toEqual(run(own));
    expect(await redriveJson("sim run queue-poison --preset payment --seed 7")).toEqual(
      asJson(simulate({ ...scenarios["queue-poison"]!, policy: "payment" } as never, { seed: 7 })),
    );
  });

  test("the ladder has the simulator's numbers, one line per rung", async () => {
    const { rungs } = await redriveJson<{ rungs: unknown[] }>("sim ladder --seed 7");
    const names = Object.keys(scenarios).filter((name) => name.startsWith("ladder-"));
    expect(rungs).toHaveLength(names.length);
    expect(rungs[0]).toEqual(asJson(simulate(scenarios["ladder-0-plain"]!, { seed: 7 })));
    expect((await redrive("sim ladder")).out).toMatch(
      /Two layers, three attempts each, .* never\n/u,
    );
  });
});

describe("sim lab", () => {
  const flags = { seed: 1, effort: 1 };
  const labs = (isOk: boolean) =>
    presentLabs(fakeTerminal().terminal, virtualClock(), ["coverage"], flags, async (tasks) =>
      tasks.map(({ id, seed, effort }) => {
        const report = runLab(id, { seed, effort });
        return isOk ? report : { ...report, ok: false };
      }),
    );

  test("prints published value, our value and tolerance, and exits with 0", async () => {
    const shown = await labs(true);
    const lines = shown.text(fakeTerminal().terminal).join("\n");
    expect(lines).toMatch(/outlast 8 s +0\.44 +0\.44\d +±0\.02 +ok/u);
    expect(lines).toContain("9 results, all within tolerance.");
    expect(shown.exitCode).toBe(0);
  });

  test("draws every number as a dot and a miss in another color", async () => {
    const good = (await labs(true)).svg?.() ?? "";
    expect(good).toMatch(/^<svg [\s\S]*<\/svg>\n$/u);
    expect(good.match(/<circle/gu)).toHaveLength(runLab("coverage").rows.length);
    expect(good).not.toContain('class="dot bad"');
    const report = runLab("coverage");
    const [first, ...rest] = report.rows;
    const missed = { ...report, rows: [{ ...first!, ok: false }, ...rest] };
    const { terminal } = fakeTerminal();
    const shown = await presentLabs(terminal, virtualClock(), [], flags, async () => [missed]);
    expect(shown.svg?.().match(/class="dot bad"/gu)).toHaveLength(1);
  });

  test("exits with 1 on a miss", async () => {
    expect((await labs(false)).exitCode).toBe(1);
  });
});

test("sim replay has the simulator's numbers for both policies", async () => {
  const attempt = (taskId: string, startedAt: number, responseStatus: number) =>
    JSON.stringify({ taskId, attemptNumber: 1, startedAt, durationMs: 50, responseStatus });
  const log = [attempt("a", 1000, 503), attempt("b", 1500, 503), attempt("c", 9000, 200)].join(
    "\n",
  );
  const path = file("log.ndjson", log);
  const json = await redriveJson<object>(`sim replay ${path} --preset background --seed 7`);
  expect(json).toMatchObject(replay(log, "background", { seed: 7 }));
  const { out } = await redrive(`sim replay ${path} --preset background`);
  expect(out).toMatch(/tasks that succeeded +1 +3 +\+200 %/u);
});

test("advise has the simulator's advice", async () => {
  const answers = { clients: "very-many", waits: "job", outageMs: 600_000 } as const;
  const json = await redriveJson<object>("advise --clients 5000 --waits job --outage 10m");
  expect(json).toMatchObject({ answers, ...advise(answers) });
});

test("advise writes its answers and its policy as CSV and its waits as SVG", async () => {
  const { policy, coverage: share } = advise({ outageMs: 600_000 });
  const { out } = await redrive("advise --outage 10m --csv");
  const lines = out.trimEnd().split("\n");
  expect(lines[0]).toBe("part,name,value");
  expect(lines).toContain("answer,outageMs,600000");
  expect(lines).toContain("answer,clients,many");
  expect(lines).toContain(`policy,maxAttempts,${policy.maxAttempts}`);
  expect(lines.at(-2)).toBe(`result,coverage,${share}`);
  expect(lines.at(-1)).toMatch(/^result,survival,/);
  const path = join(folder, "advice.svg");
  expect((await redrive(`advise --outage 10m --svg ${path}`)).err).toBe(`wrote ${path}\n`);
  const { waits } = schedule(policy);
  expect(readFileSync(path, "utf8").match(/class="range"/gu)).toHaveLength(waits.length);
});
