/** Two dev servers run at the same time, each with its own data and flaky destination. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { presets } from "@redrive/core";
import { describe, expect, onTestFinished, test } from "vitest";
import { type DevServer, PAGES, startDevServer } from "./dev-server.ts";

async function start(port: number): Promise<DevServer> {
  const dev = await startDevServer({ port, folder });
  onTestFinished(() => dev.stop());
  return dev;
}

const folder = mkdtempSync(join(tmpdir(), "redrive-dev-"));

test("if the port is taken, a second server uses the next free port and its own data", async () => {
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const first = await start(0);
  const second = await start(Number(new URL(first.url).port));
  expect(Number(new URL(second.url).port)).toBeGreaterThan(Number(new URL(first.url).port));
  expect([first.dataFile, second.dataFile]).toEqual([
    join(folder, "dev.db"),
    join(folder, `dev-${new URL(second.url).port}.db`),
  ]);
  expect(first.changes).toEqual([]);
  const [from, to] = [first.url, second.url].map((url) => new URL(url).port);
  expect(second.changes).toEqual([
    `Port ${from} is taken, so the service uses ${to}.`,
    `Another process uses dev.db, so the data is in dev-${to}.db.`,
  ]);
  const response = await fetch(`${second.url}/healthz`);
  expect(await response.json()).toEqual({ status: "ok" });
  expect(await (await fetch(`${second.url}/retry-policies/demo`)).json()).toHaveProperty("version");
  expect((await fetch(`${second.flakyUrl}/break?for=1h`)).status).toBe(200);
  expect((await fetch(`${second.flakyUrl}/orders`)).status).toBe(503);
});

// The pages of `redrive dev` have real numbers and safe headers.

const get = (path: string) => PAGES[path]!();

describe("the dev pages", () => {
  test("list every preset with its waits as JSON", () => {
    const { policies } = JSON.parse(get("/policies.json").body);
    expect(policies.map(({ name }: { name: string }) => name)).toEqual(Object.keys(presets));
    expect(policies[0]).toMatchObject({ name: "default", ceilingsMs: [100, 200, 400, 800] });
  });

  test("allow no script, style or frame", () => {
    expect(get("/policies.json").headers["content-security-policy"]).toMatch(
      /^default-src 'none'; base-uri 'none'/u,
    );
  });
});
