/**
 * The table of hostile responses, rows 1 to 37, through a built `redrive serve`, with real sockets. The rows
 * that need names (33, 34 and 38) are in `targets.test.ts`.
 */
// needs: build
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type Behavior,
  flood,
  hostileServer,
} from "../../faces/service/src/deliver/hostile-server.testing.ts";
import { head } from "../../faces/service/src/deliver/hostile-table.testing.ts";
import { expectLog } from "./expect-log.ts";
import { expectRow } from "./expect-row.ts";
import { RESPONSE_ROWS } from "./response-rows.ts";
import type { HostileResult } from "./results.ts";
import { addPolicies, runHostile, settled } from "./run-row.ts";
import { ServiceProcess } from "./service-process.ts";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "redrive-responses-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const address = "127.0.0.1";
let service: ServiceProcess;
let runs: readonly Promise<HostileResult>[];
beforeAll(async () => {
  const store = `sqlite:${join(folder, "responses.db")}`;
  const apiKey = `rdv_responses_${"k".repeat(43)}`;
  service = await ServiceProcess.start({ main: MAIN, address, port: 0, store, apiKey });
  await addPolicies(service);
  runs = RESPONSE_ROWS.map((row, index) => runHostile(service, row, address, index));
  await Promise.allSettled(runs);
});
afterAll(() => service?.kill());

describe("a target", () => {
  it.each(RESPONSE_ROWS.map((row, index) => ({ ...row, index })))(
    "that $does (row $row)",
    async ({ index, ...row }) => expectRow(row, await runs[index]),
  );
});

const MIB = 1 << 20;

/** The memory of the service, in MiB. */
function memoryMib(): number {
  const [, pages = "0"] = readFileSync(`/proc/${service.pid}/statm`, "utf8").split(" ");
  return (Number(pages) * 4096) / MIB;
}

// skipped: only Linux shows the memory of another process as a file
it.skipIf(process.platform !== "linux")("a response of 1 GiB is cut (row 7)", async () => {
  let peakMib = 0;
  const sentMib: number[] = [];
  const huge: Behavior = (socket) => {
    socket.write(head(200, `content-length: ${1024 * MIB}`));
    flood(socket, Buffer.alloc(65_536, "x"));
    socket.on("close", () => {
      sentMib.push(socket.bytesWritten / MIB);
      peakMib = Math.max(peakMib, memoryMib());
    });
  };
  const server = await hostileServer(huge);
  const beforeMib = memoryMib();
  const ends = Array.from({ length: 20 }, async (_, n) => {
    const task = { targetUrl: server.url(`/${n}`), policyId: "ample", destination: `huge-${n}` };
    const created = await service.call({ path: "/retry-tasks", body: task });
    const { log } = await settled(service, created);
    return [log.length, log[0]?.outcome, log[0]?.responseBody?.length];
  });
  expect(await Promise.all(ends)).toEqual(new Array(20).fill([1, "success", 16_384]));
  await server.close();
  // What is sent fits into the buffers of the kernel.
  expect(Math.max(...sentMib)).toBeLessThan(64);
  expect(peakMib - beforeMib).toBeLessThan(50);
});

it("the service is healthy after all rows, has written only log lines, and ends in order", async () => {
  expect((await service.get("/healthz")).status).toBe(200);
  expect([await service.stop(), service.errors]).toEqual([0, ""]);
  expectLog(service.log);
});
