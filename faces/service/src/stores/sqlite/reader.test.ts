/** Tests that the reader runs statements in order, and replaces a thread that does not respond. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { virtualClock } from "@redrive/core";
import { afterAll, expect, it } from "vitest";
import { createReader, MAX_STATEMENT_MS } from "./reader.ts";
import { sqliteStore } from "./sqlite-store.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-reader-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = join(folder, "redrive.db");
await sqliteStore(file).close();

/** Takes a few hundred milliseconds. */
const LONG = `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
  SELECT count(*) FROM n`;

it("answers in the order of the calls, and an error fails only its own call", async () => {
  const reader = createReader(file, virtualClock());
  const told: string[] = [];
  const tell = (name: string) => () => told.push(name);
  await Promise.all([
    reader.all(LONG, []).then(tell("long")),
    reader.all("SELECT x", []).catch(({ message }) => told.push(message)),
    reader.all("SELECT ?", [7]).then(([row]) => told.push(`row ${row}`)),
  ]);
  const error = `reading ${file} failed: no such column: x`;
  expect(told).toEqual(["long", error, "row 7"]);
  await reader.close();
});

it("gives up a statement that takes too long; the next one runs in another thread", async () => {
  const clock = virtualClock();
  const reader = createReader(file, clock);
  const long = reader.all(LONG, []);
  const refused = expect(long).rejects.toThrow(/took over 15000 ms and was terminated/);
  const next = reader.all("SELECT 1", []);
  await clock.advance(MAX_STATEMENT_MS);
  await refused;
  expect(await next).toEqual([[1]]);
  await reader.close();
});

it("rejects what is waiting when it is closed", async () => {
  const reader = createReader(file);
  const waiting = [reader.all("SELECT 1", []), reader.all("SELECT 2", [])];
  const refused = waiting.map((one) => expect(one).rejects.toThrow(/it is closed/));
  await reader.close();
  await Promise.all(refused);
});
