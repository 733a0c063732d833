/**
 * Tests of very large bodies with the service in its own process: memory does not grow with the body, and
 * a kill loses no acknowledged body and leaves no part of another. REDRIVE_BODY_MIB sets the size.
 */
// needs: build
import { type ChildProcess, fork } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { callerOn } from "./test-server.ts";

const SCRIPT = fileURLToPath(new URL("./child-server-process.mjs", import.meta.url));
const MIB = 1024 * 1024;
const BODY_MIB = Number(process.env["REDRIVE_BODY_MIB"] ?? 128);
const MAX_GROWTH = 50 * MIB;

const folder = mkdtempSync(join(tmpdir(), "redrive-large-"));
let child: ChildProcess | undefined;
let port = 0;

/** One thread: on a busy machine, the threads that free buffers start late, and memory grows meanwhile. */
const GC_FLAGS = ["--expose-gc", "--single-threaded-gc"];

async function start(name: string): Promise<void> {
  child = fork(SCRIPT, [join(folder, name)], { execArgv: GC_FLAGS });
  [port] = (await once(child, "message")) as [number];
  const caller = callerOn(port);
  await caller.call({ path: "/retry-policies", body: PATIENT });
  caller.close();
}

/** A busy machine takes long for a large body. */
const PATIENT = {
  policyId: "patient",
  attemptTimeoutMs: 600_000,
  totalBudgetMs: 3_600_000,
  maxAttempts: 2,
};

async function kill(): Promise<void> {
  if (child === undefined || child.signalCode !== null || child.exitCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}

/** Hashes what it gets, and keeps one promise for the next complete request. */
const target = createServer((incoming, response) => {
  const answer = (got: string) => {
    response.writeHead(200).end();
    deliver(got);
  };
  // A request that breaks off is not a delivery.
  receive(incoming).then(answer, () => {});
});
let deliver: (got: string) => void = () => {};
const nextDelivery = () => new Promise<string>((resolve) => (deliver = resolve));

async function receive(incoming: IncomingMessage): Promise<string> {
  const hash = createHash("sha256");
  let chunks = 0;
  for await (const chunk of incoming) {
    hash.update(chunk);
    if (chunks++ % 64 === 0) sample();
  }
  return hash.digest("hex");
}

/** The largest memory of the child that was seen. */
let peak = 0;
function sample(): void {
  const [, pages = "0"] = readFileSync(`/proc/${child?.pid}/statm`, "utf8").split(" ");
  peak = Math.max(peak, Number(pages) * 4096);
}

async function settledMemory(): Promise<number> {
  const answer = once(child as ChildProcess, "message");
  child?.send("memory");
  const [bytes] = await answer;
  return bytes as number;
}

beforeAll(async () => {
  await once(target.listen(0, "127.0.0.1"), "listening");
});
afterEach(kill);
afterAll(() => {
  target.closeAllConnections();
  target.close();
  rmSync(folder, { recursive: true, force: true });
});

const PART = Buffer.from(Array.from({ length: 65_536 }, (_, at) => (at * 31) % 256));

function hashOf(mib: number): string {
  const hash = createHash("sha256");
  for (let part = 0; part < mib * 16; part++) hash.update(PART);
  return hash.digest("hex");
}

function openForward(headers: Record<string, string> = {}) {
  const url = `http://127.0.0.1:${(target.address() as AddressInfo).port}/`;
  return request({
    port,
    method: "POST",
    path: "/forward",
    headers: { "redrive-target": url, "redrive-policy": PATIENT.policyId, ...headers },
  });
}

/** Resolves with the status of the response. */
async function forward(mib: number): Promise<number> {
  const sending = openForward();
  const responded = once(sending, "response");
  const parts = function* () {
    for (let part = 0; part < mib * 16; part++) {
      if (part % 64 === 0) sample();
      yield PART;
    }
  };
  await pipeline(parts, sending);
  const [response] = await responded;
  response.resume();
  return response.statusCode;
}

const isPartOfBody = (name: string) =>
  /[\da-f]{8}-[\da-f]{4}/.test(name) && statSync(join(folder, name)).isFile();
const files = () => readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(isPartOfBody);

test(`a body of ${BODY_MIB} MiB passes unchanged, and memory grows by less than 50 MiB`, async () => {
  await start("memory.db");
  const first = nextDelivery();
  await forward(16);
  await first;
  const before = await settledMemory();
  peak = before;
  const delivered = nextDelivery();
  expect(await forward(BODY_MIB)).toBe(202);
  expect(await delivered).toBe(hashOf(BODY_MIB));
  expect(peak - before).toBeLessThan(MAX_GROWTH);
  console.log(`${BODY_MIB} MiB: memory grew by ${Math.round((peak - before) / MIB)} MiB`);
});

test("a kill during an upload leaves no task, and the next start leaves no file", async () => {
  await start("upload.db");
  const sending = openForward({ "content-length": String(8 * MIB), "idempotency-key": "cut" });
  sending.on("error", () => {});
  for (let part = 0; part < 32; part++) sending.write(PART);
  await expect.poll(() => files().some((name) => name.startsWith("upload.db"))).toBe(true);
  await kill();
  await start("upload.db");
  expect(files().filter((name) => name.startsWith("upload.db"))).toEqual([]);
  const caller = callerOn(port);
  const { json } = await caller.call({ method: "GET", path: "/retry-tasks" });
  caller.close();
  expect(json.tasks).toEqual([]);
});

test("a kill right after the acknowledgment loses nothing: the next process sends the same bytes", async () => {
  await start("acknowledged.db");
  const caller = callerOn(port);
  const url = `http://127.0.0.1:${(target.address() as AddressInfo).port}/`;
  const task = { targetUrl: url, body: "x".repeat(500_000), destination: "later" };
  await caller.call({ path: "/destinations/later/pause" });
  expect((await caller.call({ body: task })).status).toBe(202);
  await kill();
  caller.close();
  await start("acknowledged.db");
  const delivered = nextDelivery();
  const again = callerOn(port);
  await again.call({ path: "/destinations/later/resume" });
  expect(await delivered).toBe(createHash("sha256").update(task.body).digest("hex"));
  again.close();
});
