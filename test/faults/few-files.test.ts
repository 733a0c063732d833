/**
 * Tests of few files: a process that runs out of file descriptors delivers everything all the same, and counts
 * no attempt that it could not send.
 */
// needs: build
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const SCRIPT = pathOf("./few-files-child.mjs");
const LOOKUP = pathOf("./few-files-lookup.mjs");

const TASKS = 400;
const FILES = 150;

interface Report {
  readonly shortages: readonly string[];
  readonly tasks: readonly (readonly [
    status: string,
    attemptNumber: number,
    error: string | null,
  ])[];
  readonly breakers: readonly string[];
}

/**
 * A server that takes some time for each request, so that many connections are open at once. The test
 * waits for the results, not for this time.
 */
async function slowServer() {
  let requests = 0;
  const server = createServer((request, response) => {
    requests++;
    request.resume();
    setTimeout(() => response.end("ok"), 100);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, port: (server.address() as AddressInfo).port, requests: () => requests };
}

/** Runs a script in a process that may open few files. Returns the JSON that it prints. */
async function runLimited(...args: readonly string[]): Promise<unknown> {
  const limited = `ulimit -n ${FILES} && exec "$@"`;
  const shell = ["-c", limited, "sh", process.execPath, ...args];
  return JSON.parse((await promisify(execFile)("sh", shell)).stdout);
}

async function deliver(targetUrl: string): Promise<Report> {
  const folder = mkdtempSync(join(tmpdir(), "redrive-few-files-"));
  const store = `sqlite:${join(folder, "redrive.db")}`;
  try {
    const args = [SCRIPT, store, targetUrl, String(TASKS), "1000", String(FILES)];
    return JSON.parse((await promisify(execFile)(process.execPath, args)).stdout) as Report;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

// skipped: only Linux has prlimit, which lowers the limit of a running process
it.skipIf(process.platform !== "linux")(
  "a shortage of files uses no attempt and is no failure of the target",
  async () => {
    const { server, port, requests } = await slowServer();
    try {
      const { shortages, tasks, breakers } = await deliver(`http://127.0.0.1:${port}/`);
      expect(shortages.length).toBeGreaterThan(0);
      expect(tasks).toEqual(tasks.map(() => ["SUCCEEDED", 1, null]));
      expect(tasks).toHaveLength(TASKS);
      expect(requests()).toBe(TASKS);
      expect(breakers.filter((state) => state !== "CLOSED")).toEqual([]);
    } finally {
      server.close();
    }
  },
);

// skipped: Windows has no ulimit
it.skipIf(process.platform === "win32")(
  "a lookup that could open no socket is a shortage, and not a failure of the name",
  async () => {
    const found = (await runLimited(LOOKUP)) as { lacking: unknown[]; enough: unknown[] };
    expect(found.lacking).toEqual(["node", "node"]);
    expect(found.enough).toEqual([null, null]);
  },
);
