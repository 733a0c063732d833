/** Tests of a backup that is made under load, and of the service that is restored from it. */
// needs: build
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { Child } from "./child.ts";
import { CountingTarget } from "./counting-target.ts";
import { readTasks } from "./read-tasks.ts";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "redrive-backups-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function redrive(...args: readonly string[]) {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close"),
  ]);
  return { status: status as number, stdout, stderr };
}

describe("a backup under load", () => {
  it("has every task that was acknowledged before, and its restored service sends them", {
    timeout: 120_000,
  }, async () => {
    const file = join(folder, "redrive.db");
    const target = new CountingTarget(0.3);
    await target.listen();
    const options = { targetUrl: target.url, from: 0, callers: 16 } as const;
    const service = new Child({ ...options, file, mode: "load", count: 1_000_000 });
    await service.acknowledgedCount(200);
    const before = service.acknowledged().map(([, taskId]) => taskId);

    const copy = join(folder, "backup.db");
    const made = await redrive("backup", file, "--to", copy, "--json");
    expect(made).toMatchObject({ status: 0, stderr: "" });
    await service.acknowledgedCount(service.acknowledged().length + 100);
    await service.kill();
    const after = service.acknowledged().length;

    const copied = new Set(readTasks(copy, { check: true }).map(({ taskId }) => taskId));
    expect(JSON.parse(made.stdout)).toMatchObject({ file: copy, tasks: copied.size });
    expect(before.filter((taskId) => !copied.has(taskId))).toEqual([]);
    expect(copied.size).toBeLessThan(after);

    const restored = join(folder, "restored.db");
    const put = await redrive("restore", copy, "--store", `sqlite:${restored}`);
    expect(put).toMatchObject({ status: 0 });
    expect(put.stderr).toContain("are sent again");
    const next = new Child({ ...options, file: restored, mode: "drain", count: 0 });
    await next.said("stopped");
    target.close();
    const statuses = readTasks(restored).map(({ status }) => status);
    expect(statuses).toHaveLength(copied.size);
    expect(statuses.filter((status) => !/SUCCEEDED|EXHAUSTED/u.test(status))).toEqual([]);
  });
});
