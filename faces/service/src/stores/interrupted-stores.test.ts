/** Interrupts commits: of the memory store at random items, and of the SQLite store at the last one. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seededRandom, virtualClock } from "@redrive/core";
import { afterAll, expect } from "vitest";
import type { Batch } from "../model/batch.ts";
import { interruptedConformance } from "./conformance-interrupted.testing.ts";
import { createFaults, faultyStore } from "./memory/faulty-store.testing.ts";
import { memoryStore } from "./memory/memory-store.ts";
import { sqliteStore } from "./sqlite/sqlite-store.ts";
import { T0, TENANT } from "./store.testing.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-interrupted-"));
let files = 0;
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interruptedConformance("memory", 30, async (round) => {
  const store = memoryStore({ exclusive: false });
  const clock = virtualClock(T0);
  const faulty = faultyStore(store, clock, seededRandom(`round ${round}`), createFaults(1, 10));
  return { store, interrupt: (batch) => clock.run(faulty.commit(batch)).catch(() => {}) };
});

/** It has no id: SQLite refuses it after every other item of the batch was written. */
const REFUSED = {
  kind: "refused",
  tenantId: TENANT,
  id: null,
  text: "",
} as unknown as Batch["documents"][number];

interruptedConformance("SQLite", 1, async () => {
  const store = sqliteStore(join(folder, `${++files}`, "redrive.db"));
  const interrupt = (batch: Batch) =>
    expect(store.commit({ ...batch, documents: [REFUSED] })).rejects.toThrow(/NOT NULL/);
  return { store, interrupt };
});
