/** Tests of exported files: versions, invalid rows, nodes that start, and the size of batches. */
import { crc32 } from "node:zlib";
import { describe, expect, test } from "vitest";
import { guardedStore } from "./model/guarded-store.ts";
import { type StoreTransfer, transferOf } from "./model/transfer.ts";
import { memoryStore } from "./stores/memory/memory-store.ts";
import { batch, create, report } from "./stores/store.testing.ts";
import { fill } from "./stores/transfer-content.testing.ts";
import {
  exportRows,
  fileLines,
  type ImportResult,
  importRows,
  MAX_LINE_BYTES,
} from "./transfer.ts";

const SHARED = { exclusive: false } as const;

async function exported(transfer: StoreTransfer): Promise<readonly string[]> {
  const lines: string[] = [];
  const write = async (line: string) => void lines.push(line);
  await exportRows(transfer, { store: "memory", now: 5, write });
  return lines;
}

async function filledLines(): Promise<readonly string[]> {
  const store = memoryStore(SHARED);
  await fill(store);
  return exported(store.transfer);
}

async function* chunksOf(text: string, size = 1000): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

function importing(
  transfer: StoreTransfer,
  lines: readonly string[],
  isRepeatable = true,
): Promise<ImportResult> {
  const source = { open: () => chunksOf(lines.join("")), isRepeatable };
  return importRows(transfer, source, { dryRun: false });
}

/** The line with another content and the right checksum. */
function changedLine(line: string, from: string, to: string): string {
  const text = line.slice(0, line.lastIndexOf(',"crc32"')).replace(from, to);
  return `${text},"crc32":"${crc32(text).toString(16).padStart(8, "0")}"}\n`;
}

describe("an exported file", () => {
  test("is imported through a pipe as from a file", async () => {
    const lines = await filledLines();
    for (const isRepeatable of [true, false]) {
      const store = memoryStore(SHARED);
      expect(await importing(store.transfer, lines, isRepeatable)).toMatchObject({
        added: 24,
        same: 0,
        different: [],
      });
      expect(await exported(store.transfer)).toEqual(lines);
    }
  });

  test("of a newer version is refused, and nothing is written", async () => {
    const lines = await filledLines();
    const newer = lines.with(0, changedLine(lines[0] ?? "", '"version":1', '"version":2'));
    const store = memoryStore(SHARED);
    await expect(importing(store.transfer, newer)).rejects.toMatchObject({
      code: "INVALID_IMPORT",
      message: "line 1: the file has format 2, this version reads up to 1: upgrade this Redrive",
    });
    expect(store.all()).toEqual([]);
  });

  test.each([
    ['"status":"PENDING"', '"status":"WAITING"', "status must be one of"],
    ['"attemptNumber":', '"attemptNumber":-', "attemptNumber must be a whole number"],
    ['"claimEpoch":', '"more":1,"claimEpoch":', "more is an unknown field"],
    ['"body":"', '"body":"!', "body must be Base64"],
    ['"finishedAt":null', '"finishedAt":5', "is PENDING, but finishedAt is 5"],
    ['"kind":"task"', '"kind":"note"', 'unknown kind "note"'],
    ['"kind":"task"', '"kind":"policy"', "a policy must come before each task"],
  ])("with %s as %s is refused by the name of its field", async (from, to, message) => {
    const lines = await filledLines();
    const first = lines.findIndex((line) => line.startsWith('{"kind":"task"'));
    // A policy is out of order only after a task.
    const at = lines.findIndex((line, n) => n > first && /PENDING.*"body":"/u.test(line));
    const changed = lines.with(at, changedLine(lines[at] ?? "", from, to));
    const error = await importing(memoryStore(SHARED).transfer, changed).catch((one) => one);
    expect(error).toMatchObject({ code: "INVALID_IMPORT" });
    expect(error.message).toContain(`line ${at + 1}: `);
    expect(error.message).toContain(message);
  });

  test("has lines of bounded length", async () => {
    const line = async () => {
      for await (const _ of fileLines(chunksOf("x".repeat(MAX_LINE_BYTES + 1), 65_536)));
    };
    await expect(line()).rejects.toMatchObject({ code: "INVALID_IMPORT" });
  });
});

describe("a store with live nodes", () => {
  test("is neither exported nor imported", async () => {
    const lines = await filledLines();
    const store = memoryStore(SHARED);
    await store.renew(report("node-1"));
    const used = { code: "STORE_IN_USE", message: expect.stringContaining("node-1") };
    await expect(exported(store.transfer)).rejects.toMatchObject(used);
    await expect(importing(store.transfer, lines)).rejects.toMatchObject(used);
    expect(store.all()).toEqual([]);
  });

  test("is refused also if the node has started during the export", async () => {
    const store = memoryStore(SHARED);
    await fill(store);
    const lines: string[] = [];
    const write = async (line: string) => {
      if (lines.push(line) === 3) await store.renew(report("late"));
    };
    const options = { store: "memory", now: 5, write };
    await expect(exportRows(store.transfer, options)).rejects.toMatchObject({
      code: "STORE_IN_USE",
    });
    expect(lines.some((line) => line.includes('"trailer"'))).toBe(false);
  });
});

test("an import writes in batches, and reports how many rows it has added when it fails", async () => {
  const source = memoryStore();
  const creates = Array.from({ length: 600 }, () => create());
  await source.commit(batch({ creates }));
  const lines = await exported(source.transfer);
  const store = memoryStore();
  const sizes: number[] = [];
  const write: StoreTransfer["write"] = async (kind, rows) => {
    sizes.push(rows.length);
    if (sizes.length === 3) throw new Error("the disk is gone");
    return store.transfer.write(kind, rows);
  };
  const inner = { ...store, transfer: { ...store.transfer, write } };
  const failing = guardedStore(inner as never, { failed: () => {} });
  const added: number[] = [];
  const file = { open: () => chunksOf(lines.join(""), 65_536), isRepeatable: true };
  const options = {
    dryRun: false,
    onProgress: (one: { added: number }) => void added.push(one.added),
  };
  const transfer = transferOf(failing) as StoreTransfer;
  await expect(importRows(transfer, file, options)).rejects.toMatchObject({
    code: "STORE_UNAVAILABLE",
  });
  expect(sizes).toEqual([256, 256, 88]);
  expect(added).toEqual([0, 0, 0, 256, 512]);
  expect(store.all()).toHaveLength(512);
});
