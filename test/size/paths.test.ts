/** Limits what a task, a claim and a call of the library run through. `npm run trace` shows each path. */
// needs: build, postgres
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { startPostgres } from "../servers/postgres.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** These limits may only shrink. Timers and exchanges that happen meanwhile add a few. */
const MAX = {
  post: { files: 60, changes: 390, entries: 800 },
  claim: { files: 30, changes: 200, entries: 400 },
  retry: { files: 6, changes: 14, entries: 26 },
  destination: { files: 12, changes: 48, entries: 90 },
};

async function trace(path: keyof typeof MAX, store: string) {
  const args = ["tools/trace/trace.mjs", path, store];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT });
  const [line, ...numbers] =
    /files: (\d+), changes of file: (\d+), function entries: (\d+)/u.exec(stdout) ?? [];
  process.stdout.write(`${path}: ${line}\n`);
  const [files, changes, entries] = numbers.map(Number);
  return { files, changes, entries };
}

test.each([
  { path: "post", name: "one POST, from the socket to the settled row" },
  { path: "claim", name: "one claim on PostgreSQL" },
  { path: "retry", name: "one retry() that succeeds" },
  { path: "destination", name: "one call to a destination with three guards" },
] as const)("$name runs through few files", async ({ path }) => {
  const server = path === "claim" ? await startPostgres() : undefined;
  try {
    const { files, changes, entries } = await trace(path, server?.url ?? "");
    const max = MAX[path];
    expect(files).toBeLessThanOrEqual(max.files);
    expect(changes).toBeLessThanOrEqual(max.changes);
    expect(entries).toBeLessThanOrEqual(max.entries);
  } finally {
    await server?.stop();
  }
});
