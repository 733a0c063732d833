/** Tests of a failing disk: strace counts fsyncs, makes them fail and simulates a full disk. */
// needs: build, strace
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { Child } from "./child.ts";
import { readTasks } from "./read-tasks.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-disk-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Nothing listens there: these tests store tasks for later. */
const NOBODY = "http://127.0.0.1:9999/";
const SYNCS = "fsync,fdatasync";

// With 64 callers, a commit has more items than SQLite syncs itself, so a thread syncs it.

/** Stores tasks, one by one or by several callers at once, under strace. */
async function store(
  name: string,
  from: number,
  count: number,
  strace: readonly string[],
  callers = 1,
) {
  const file = join(folder, name);
  const under = strace.length === 0 ? [] : ["strace", "-f", "-qq", ...strace];
  const child = new Child({
    file,
    targetUrl: NOBODY,
    mode: "store",
    from,
    count,
    callers,
    under,
  });
  const code = await child.ended();
  return { file, child, code };
}

/**
 * The acknowledgments in a trace, and those that were printed while a write to the log was not
 * covered by a successful sync that began after it.
 */
function acknowledgmentsIn(trace: string): { total: number; early: readonly string[] } {
  const early: string[] = [];
  let total = 0;
  let isDirty = false;
  /** The threads whose running sync covers every write so far. */
  const covering = new Set<string>();
  for (const line of trace.split("\n")) {
    const [thread = ""] = line.split(" ", 1);
    if (/pwrite64\(\d+<[^>]*-wal>/u.test(line)) {
      isDirty = true;
      covering.clear();
    } else if (/f(data)?sync\(\d+<[^>]*-wal>/u.test(line)) covering.add(thread);
    if (/f(data)?sync.*= 0$/u.test(line) && covering.delete(thread)) isDirty = false;
    if (!line.includes("write(1<") || !line.includes('"ack ')) continue;
    total++;
    if (isDirty) early.push(line);
  }
  return { total, early };
}

describe("the disk under an embedded Redrive", () => {
  it.each([1, 64])("syncs the log before it acknowledges, with %i callers", async (callers) => {
    const name = `order-${callers}.db`;
    await store(name, 0, 5, []);
    const log = join(folder, `${name}.log`);
    const trace = ["-y", "-e", `trace=${SYNCS},pwrite64,write`, "-o", log];
    const { child, code } = await store(name, 5, 200, trace, callers);
    expect(code, child.stderr).toBe(0);
    const { total, early } = acknowledgmentsIn(readFileSync(log, "utf8"));
    expect(total).toBe(200);
    expect(early).toEqual([]);
  });

  it("has fsynced every task before it was acknowledged", async () => {
    await store("count.db", 0, 5, []);
    const log = join(folder, "count.log");
    const { child, code } = await store("count.db", 5, 100, ["-e", `trace=${SYNCS}`, "-o", log]);
    const syncs = readFileSync(log, "utf8")
      .split("\n")
      .filter((line) => /f(data)?sync\(/.test(line));
    console.log(`fsyncs ${syncs.length} for ${child.acknowledged().length} acknowledged tasks`);
    expect(code).toBe(0);
    expect(child.acknowledged()).toHaveLength(100);
    expect(syncs.length).toBeGreaterThanOrEqual(100);
  });

  it.each([1, 64])(
    "ends the process when an fsync fails, and acknowledges nothing after it, with %i callers",
    async (callers) => {
      const name = `failing-${callers}.db`;
      await store(name, 0, 5, []);
      // strace counts the calls of each thread, and the pool has four.
      const inject = [
        "-e",
        `trace=${SYNCS}`,
        "-e",
        `inject=${SYNCS}:error=EIO:when=${callers === 1 ? 40 : 20}+`,
      ];
      const log = ["-o", join(folder, `${name}.log`)];
      const { file, child, code } = await store(name, 5, 10_000, [...inject, ...log], callers);
      // While the process exits, its thread that moves the log can fail too. The binding of SQLite then
      // aborts the process, which has ended for our caller in either way.
      if (code === null) expect(child.stderr).toContain("Napi::Error");
      // Any other code means an earlier exception or a failure of strace; its output is needed then.
      else expect(code, child.stderr).toBe(70);
      const fatal = child.lines.findIndex((line) => line.startsWith("fatal"));
      expect(fatal).toBeGreaterThan(0);
      expect(child.lines.slice(fatal).filter((line) => line.startsWith("ack "))).toEqual([]);
      const ids = new Set(readTasks(file, { check: true }).map(({ taskId }) => taskId));
      const lost = child.acknowledged().filter(([, taskId]) => !ids.has(taskId));
      expect(child.acknowledged().length).toBeGreaterThan(10);
      expect(lost).toEqual([]);
      const again = await store(name, 1000, 5, []);
      expect(again.child.acknowledged()).toHaveLength(5);
    },
  );

  it("may be full temporarily: nothing breaks, nothing is lost, and the service continues by itself", async () => {
    await store("full.db", 0, 5, []);
    const inject = ["-e", "trace=pwrite64", "-e", "inject=pwrite64:error=ENOSPC:when=200..206"];
    const log = ["-o", join(folder, "full.log")];
    const { file, child, code } = await store("full.db", 5, 200, [...inject, ...log]);
    expect(code).toBe(0);
    const refused = child.lines.filter((line) => line.startsWith("nack "));
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.every((line) => line.endsWith("STORE_FULL"))).toBe(true);
    const last = child.lines.findLastIndex((line) => line.startsWith("nack "));
    expect(child.lines.slice(last).some((line) => line.startsWith("ack "))).toBe(true);
    const ids = new Set(readTasks(file, { check: true }).map(({ taskId }) => taskId));
    expect(child.acknowledged().filter(([, taskId]) => !ids.has(taskId))).toEqual([]);
  });
});
