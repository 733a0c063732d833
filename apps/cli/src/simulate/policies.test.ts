/** Policies are linted, listed, and converted from and to other systems. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { presets } from "@redrive/core";
import { catalog } from "@redrive/core/interop";
import { checkScenario, lint, type ScenarioDocument } from "@redrive/simulator";
import { decodeRun } from "@redrive/simulator/share";
import { afterAll, describe, expect, test } from "vitest";
import { redrive, redriveJson } from "../program.testing.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-policies-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (name: string, value: unknown) => {
  const path = join(folder, name);
  writeFileSync(path, typeof value === "string" ? value : JSON.stringify(value));
  return path;
};

const TIERS = { tiers: [{ policy: { maxAttempts: 3 } }, { policy: { maxAttempts: 4 } }] };

describe("policies lint", () => {
  test("has the simulator's findings and exits with 1 on an error", async () => {
    const path = file("tiers.json", TIERS);
    const { results } = await redriveJson<{ results: { findings: unknown }[] }>(
      `policies lint ${path} --clients 400`,
    );
    expect(results[0]?.findings).toEqual(lint(TIERS, { clients: 400 }));
    const { out, code } = await redrive(`policies lint ${path}`);
    expect(out).toMatch(/error {4}nested-layers \(tiers\)\n {11}3 x 4 = 12/u);
    expect(code).toBe(1);
  });

  test("draws the findings and escapes the names of files", async () => {
    const path = file("a<b>&\u0001.json", TIERS);
    const svg = join(folder, "lint.svg");
    const { err } = await redrive(`policies lint ${path} --preset payment --svg ${svg}`);
    expect(err).toBe(`wrote ${svg}\n`);
    const drawn = readFileSync(svg, "utf8");
    expect(drawn).toMatch(/^<svg [\s\S]*<\/svg>\n$/u);
    expect(drawn).toContain("a&lt;b&gt;&amp;\ufffd.json: 1 error");
    expect(drawn).toContain("payment: no problems found");
    expect(drawn.match(/class="dot bad"/gu)).toHaveLength(1);
    expect(drawn).toContain("3 x 4 = 12");
  });

  describe("the link opens the linted documents", () => {
    const opened = async (args: string) => {
      const { url } = await redriveJson<{ url: string }>(`policies lint ${args} --link`);
      const decoded = decodeRun(new URL(url).hash);
      return "run" in decoded ? decoded.run : decoded.problem;
    };

    test("one policy as a curve", async () => {
      expect(await opened("--preset payment --outage 9s")).toEqual({
        view: "curve",
        seed: 1,
        policy: presets.payment,
        outageMs: 9000,
      });
    });

    test("several policies, or many clients, as a herd of at most six", async () => {
      expect(await opened("--preset payment --preset webhook --clients 400")).toMatchObject({
        view: "herd",
        strategies: [
          { name: "payment", policy: presets.payment },
          { name: "webhook", policy: presets.webhook },
        ],
        clients: 400,
      });
      const seven = Array.from({ length: 7 }, () => "--preset payment").join(" ");
      const { err, code } = await redrive(`policies lint ${seven} --link`);
      expect([err, code]).toEqual(["error: --link must name 1 to 6 strategies, got 7\n", 2]);
    });

    test("tiers and destinations as a system that the simulator accepts", async () => {
      const run = await opened(`${file("tiers.json", TIERS)} --clients 40`);
      expect(run).toMatchObject({
        view: "system",
        scenarios: [
          { clients: { count: 40 }, tiers: TIERS.tiers.map((one) => ({ destination: one })) },
        ],
      });
      const guarded = await opened("--preset aws-standard");
      for (const one of [run, guarded]) {
        const { scenarios } = one as { scenarios: readonly ScenarioDocument[] };
        expect(scenarios.flatMap((scenario) => checkScenario(scenario))).toEqual([]);
      }
    });

    test("no link if nothing could be read", async () => {
      const { err } = await redrive("policies lint nothing.json --link");
      expect(err).toBe("note: the web page cannot show these documents, so there is no link\n");
    });
  });

  test("passes a preset", async () => {
    const { out, code } = await redrive("policies lint --preset interactive --preset read");
    expect(out).toMatch(/^interactive: no problems found/u);
    expect(code).toBe(0);
  });

  test("exits with 3 if some files could not be read, with 2 if none could, with 1 on an invalid one", async () => {
    const good = file("good.json", presets.interactive);
    const bad = file("bad.json", { maxAttemps: 3 });
    expect((await redrive(`policies lint ${good} none.json`)).code).toBe(3);
    expect((await redrive("policies lint none.json")).code).toBe(2);
    const { out, code } = await redrive(`policies lint ${bad}`);
    expect(out.replace(/\s+/gu, " ")).toContain('did you mean "maxAttempts"?');
    expect(code).toBe(1);
  });

  test("refuses to lint nothing", async () => {
    expect(await redrive("policies lint")).toMatchObject({ code: 2 });
  });
});

describe("policies catalog", () => {
  test("lists every entry within the width of the terminal", async () => {
    const { out } = await redrive("policies catalog");
    for (const { id } of catalog) expect(out).toContain(`\n${id} `);
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  test("shows one entry and suggests the nearest id", async () => {
    expect((await redrive("policies catalog aws-standard")).out).toContain("retry behavior 2.1");
    expect(JSON.parse((await redrive("policies catalog webhook --json")).out)).toEqual(
      presets.webhook,
    );
    expect((await redrive("policies catalog aws-standrd")).err).toContain('"aws-standard"?');
  });
});

describe("policies import and export", () => {
  test("an export can be imported, and notes go to standard error", async () => {
    const { out, err } = await redrive(
      "policies export --grpc --preset grpc --service shop.Orders",
    );
    expect(JSON.parse(out)).toHaveProperty("methodConfig.0.name.0.service", "shop.Orders");
    const path = file("grpc.json", out);
    const imported = await redrive(`policies import --grpc ${path} --service shop.Orders`);
    expect(JSON.parse(imported.out)).toMatchObject({ policy: { maxAttempts: 4 } });
    expect(err === "" || err.startsWith("note: ")).toBe(true);
  });

  test("an AWS profile is read and written", async () => {
    const path = file("config", "[profile shop]\nretry_mode = adaptive\nmax_attempts = 7\n");
    const { out } = await redrive(`policies import --aws ${path} --profile shop`);
    expect(JSON.parse(out)).toMatchObject({ policy: { maxAttempts: 7 }, rate: { adaptive: true } });
    const exported = await redrive(
      `policies export --aws --policy-file ${file("shop.json", out)} --profile shop`,
    );
    expect(exported.out).toBe("[profile shop]\nretry_mode = adaptive\nmax_attempts = 7\n");
  });

  test("the guards of a file are exported to Envoy", async () => {
    const path = file("orders.json", { policy: "read", hedge: { after: 100, max: 1 } });
    const json = await redriveJson<object>(`policies export --envoy --policy-file ${path}`);
    expect(json).toHaveProperty("envoy.hedge_policy");
  });

  test("a policy is written as code, and the notes say what is left out", async () => {
    const path = file("orders.json", { policy: { maxAttempts: 4 }, breaker: {} });
    const { out, err } = await redrive(`policies export --code python --policy-file ${path}`);
    expect(out).toContain("stop=stop_after_attempt(4) | stop_before_delay(30),");
    expect(err).toContain("note: The code does not contain breaker.");
    const json = await redriveJson<object>("policies export --code go --preset read");
    expect(json).toHaveProperty("go", expect.stringContaining("func Retry("));
  });

  test("requires a system", async () => {
    const { err, code } = await redrive("policies export --preset read");
    const message = "error: no system given: use one of --grpc, --aws, --envoy, --code\n";
    expect([err, code]).toEqual([message, 2]);
  });
});
