/** Tests when the number of a commit is written to the ledger. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { openLedger, readLedger, writeLedger } from "./sql.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-ledger-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function newLedger(name: string) {
  const file = join(folder, name);
  writeLedger(file, { fileId: 7, commit: 1 });
  return { ledger: openLedger(file, 1), written: () => readLedger(file)?.commit };
}

describe("the ledger", () => {
  it("is written with each commit", () => {
    const { ledger, written } = newLedger("direct.db");
    ledger.record(2);
    expect(written()).toBe(2);
    ledger.close();
  });

  it("is written once at the end of a turn, with the last commit of the turn", () => {
    const { ledger, written } = newLedger("deferred.db");
    const ends: (() => void)[] = [];
    ledger.deferWrites({ endOfTurn: (work) => void ends.push(work) });
    ledger.record(2);
    ledger.record(3);
    expect([ledger.commit, written(), ends.length]).toEqual([3, 1, 1]);
    ends[0]?.();
    expect(written()).toBe(3);
    ledger.record(4);
    expect(ends.length).toBe(2);
    ledger.close();
  });

  it("is complete when it is closed before the end of the turn", () => {
    const { ledger, written } = newLedger("closed.db");
    const ends: (() => void)[] = [];
    ledger.deferWrites({ endOfTurn: (work) => void ends.push(work) });
    ledger.record(2);
    ledger.close();
    expect(written()).toBe(2);
    // The descriptor is closed, and may belong to another file.
    ends[0]?.();
    expect(written()).toBe(2);
  });
});
