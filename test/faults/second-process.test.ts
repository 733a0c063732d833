/** Tests that only one process can use a file. */
// needs: build
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { Child } from "./child.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-second-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a second process on the same file", () => {
  it("does not start, says why, and does not affect the first one", async () => {
    const options = {
      file: join(folder, "redrive.db"),
      targetUrl: "http://127.0.0.1:9999/",
      mode: "store",
      from: 0,
      callers: 1,
    } as const;
    const first = new Child({ ...options, count: 1_000_000 });
    await first.said("ack");
    const second = new Child({ ...options, count: 1 });
    expect(await second.ended()).not.toBe(0);
    expect(second.stderr).toContain("is in use by another process (one process per file");
    const before = first.acknowledged().length;
    await new Promise<void>((resolve) => {
      first.process.stdout?.once("data", () => resolve());
    });
    expect(first.acknowledged().length).toBeGreaterThanOrEqual(before);
    await first.kill();
    const third = new Child({ ...options, from: 2_000_000, count: 3 });
    expect(await third.ended()).toBe(0);
    expect(third.acknowledged()).toHaveLength(3);
  });
});
