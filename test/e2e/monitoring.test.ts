/**
 * Tests of the files in docs/monitoring: promtool accepts and tests the alert rules, every query parses and
 * uses metrics that the service has, and every runbook link has a heading.
 */
// needs: promtool
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { programFor } from "../../tools/needs.mjs";
import { openTestServer } from "../http/test-server.ts";

const inDocs = (name: string) => fileURLToPath(new URL(`../../docs/${name}`, import.meta.url));
const read = (name: string) => readFileSync(inDocs(name), "utf8");
const rules = read("monitoring/alerts.yml");
const dashboard = JSON.parse(read("monitoring/grafana.json")) as {
  panels: { title: string; targets: { expr: string }[] }[];
};
const queries = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

const promtool = (...args: readonly string[]) =>
  execFileSync(programFor("promtool"), args, { encoding: "utf8" });

/** Names of metrics of ours in a text, without the suffixes of histograms. */
const metricsIn = (text: string) =>
  new Set(
    (text.match(/\bretry_\w+/gu) ?? []).map((name) => name.replace(/_(bucket|count|sum)$/u, "")),
  );

test("promtool accepts the alert rules, and their tests pass", () => {
  expect(promtool("check", "rules", inDocs("monitoring/alerts.yml"))).toContain("SUCCESS: 9 rules");
  expect(promtool("test", "rules", inDocs("monitoring/alerts.test.yml"))).toContain("SUCCESS");
});

test("every query of the dashboard parses", () => {
  expect(queries.length).toBeGreaterThanOrEqual(dashboard.panels.length);
  const text = queries.map((expr, at) => ({
    record: `query:${at}`,
    expr: expr.replaceAll("$__rate_interval", "1m"),
  }));
  const folder = mkdtempSync(join(tmpdir(), "redrive-monitoring-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "queries.yml");
  writeFileSync(file, JSON.stringify({ groups: [{ name: "dashboard", rules: text }] }));
  const output = promtool("check", "rules", file);
  expect(output).toContain(`${queries.length} rules`);
});

test("rules and dashboard use only metrics that the service has", async () => {
  const server = await openTestServer();
  try {
    const { text } = await server.call({ method: "GET", path: "/metrics" });
    const known = new Set([...text.matchAll(/^# TYPE (\w+)/gmu)].map(([, name]) => name));
    const used = metricsIn(`${rules}\n${queries.join("\n")}`);
    expect(used.size).toBeGreaterThan(8);
    expect([...used].filter((name) => !known.has(name))).toEqual([]);
  } finally {
    await server.close();
  }
});

test("every runbook link has a heading, and every alert of the service has one", () => {
  const headings = new Set(
    [...read("runbook.md").matchAll(/^### (.+)$/gmu)].map(([, name]) => name),
  );
  const links = [...rules.matchAll(/runbook\.md#([\w-]+)/gu)].map(([, name]) => name ?? "");
  expect(links).toHaveLength(9);
  const ofService = ["dead-letters", "breaker-open", "late-tasks", "clock-refused"];
  expect([...links, ...ofService].filter((name) => !headings.has(name))).toEqual([]);
});
