/**
 * Tests of unread responses: clients that send requests and never read cost little memory, and
 * other clients are served meanwhile. The service runs in a separate process, so that its memory
 * can be measured.
 */
// needs: build
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { type Caller, callerOn } from "./test-server.ts";

const SCRIPT = fileURLToPath(new URL("./child-server-process.mjs", import.meta.url));
const MAX_GROWTH = 100 * 1024 * 1024;
const CLIENTS = 20;
const REQUESTS = 500;

const folder = mkdtempSync(join(tmpdir(), "redrive-unread-"));
let child: ChildProcess;
let caller: Caller;
let sockets: Socket[] = [];
beforeEach(async () => {
  child = fork(SCRIPT, [join(folder, "unread.db")], { execArgv: ["--expose-gc"] });
  const [port] = await once(child, "message");
  caller = callerOn(port as number);
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets = [];
  caller.close();
  child.kill("SIGKILL");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function memory(): Promise<number> {
  child.send("memory?");
  return (await once(child, "message"))[0] as number;
}

/** A client that sends requests and reads nothing; it does not mind being disconnected. */
async function sendUnread(bytes: string): Promise<void> {
  const socket = connect(caller.port, "127.0.0.1");
  sockets.push(socket);
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.pause();
  socket.write(bytes);
}

async function isHealthy(): Promise<boolean> {
  return (await caller.call({ method: "GET", path: "/healthz" })).status === 200;
}

/** At most this many requests of a connection wait, so that the connection is not closed. */
const FEW = 100;

test.each([
  ["/openapi.json", REQUESTS],
  ["/openapi.json", FEW],
  ["/docs", REQUESTS],
  ["/nowhere", REQUESTS],
])("20 clients that read nothing after GET %s x %i cost under 100 MiB", async (path, count) => {
  for (const warmUp of ["/openapi.json", "/docs"]) {
    await caller.call({ method: "GET", path: warmUp });
  }
  const before = await memory();
  const bytes = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(count);
  for (let n = 0; n < CLIENTS; n++) await sendUnread(bytes);
  let highest = 0;
  for (let n = 0; n < 5; n++) {
    expect(await isHealthy()).toBe(true);
    highest = Math.max(highest, await memory());
  }
  expect(highest - before).toBeLessThan(MAX_GROWTH);
});
