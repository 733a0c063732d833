/**
 * Inside namespace: runs the tables against a built `redrive serve` in a network of their own, and prints what was
 * seen of each row. `hostile.test.ts` starts it and compares. Arguments: the path of `redrive.mjs`, and a
 * folder for files.
 */
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { makeCertificate } from "../../faces/service/src/deliver/certificate.testing.ts";
import { dnsServer } from "../../faces/service/src/deliver/dns-server.testing.ts";
import { summaryOf } from "./hostile-row.ts";
import { REDIRECT_ROWS } from "./redirect-rows.ts";
import type { Results, TargetResult } from "./results.ts";
import { addPolicies, runHostile, settled } from "./run-row.ts";
import { ServiceProcess } from "./service-process.ts";
import { TARGET_ROWS, type TargetRow } from "./target-rows.ts";
import { tlsRows } from "./tls-rows.ts";
import {
  ALLOWED,
  OTHER_SERVICE,
  PROXY,
  PUBLIC,
  RULED_SERVICE,
  SERVICE,
  worldZone,
} from "./world.ts";

const [main = "", folder = ""] = process.argv.slice(2);
const authority = makeCertificate({ name: "Test Authority" });
const HOSTILE_ROWS = [...tlsRows(authority, Date.now()), ...REDIRECT_ROWS];

/** The connections that have arrived at each address of this machine. */
const hits = new Map<string, number>();

/** Listens on all addresses. Responds 200, and 503 to the first request of a name that is rebound. */
async function countingServer(port: number): Promise<Server> {
  const server = createServer((socket) => {
    const address = (socket.localAddress ?? "?").replace("::ffff:", "");
    hits.set(address, (hits.get(address) ?? 0) + 1);
    socket.on("error", () => {});
    socket.on("data", (data) => {
      const status = data.toString("latin1").includes("rebound.example") ? 503 : 200;
      socket.end(`HTTP/1.1 ${status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
    });
  });
  server.listen(port, "::");
  await once(server, "listening");
  return server;
}

const authorityFile = join(folder, "authority.pem");

function startService(port: number, store: string, env: NodeJS.ProcessEnv = {}) {
  const address = port === SERVICE.port ? SERVICE.address : OTHER_SERVICE.address;
  return ServiceProcess.start({
    main,
    address,
    port,
    store: `sqlite:${join(folder, store)}`,
    apiKey: `rdv_${store.replace(".", "")}_${"k".repeat(43)}`,
    env: { NODE_EXTRA_CA_CERTS: authorityFile, ...env },
  });
}

async function runTarget(
  service: ServiceProcess,
  row: TargetRow,
  index: number,
): Promise<TargetResult> {
  const { url: targetUrl, policy = "ample", attempts = 1 } = row;
  const body = { targetUrl, policyId: policy, destination: `target-${index}` };
  const created = await service.call({ path: "/retry-tasks", body });
  if (created.status !== 202) {
    return {
      summary: `${created.status} ${created.json.code}`,
      attempts: 0,
      error: created.json.detail,
    };
  }
  const { task, log } = await settled(service, created, attempts);
  const last = log.at(-1);
  return {
    summary: summaryOf(task, last),
    attempts: log.length,
    error: last?.errorMessage ?? null,
  };
}

/** Row 97: another service answers 401, because it has another key. */
async function runOtherService(service: ServiceProcess): Promise<TargetResult> {
  const other = await startService(OTHER_SERVICE.port, "other.db");
  const url = `http://${OTHER_SERVICE.address}:${OTHER_SERVICE.port}/retry-tasks`;
  const result = await runTarget(service, { row: "97", url, expected: "" }, 9997);
  await other.stop();
  return result;
}

/** Row 99: a rule that the next process does not have allows nothing any more. */
async function runRemovedRule(): Promise<{ before: TargetResult; after: TargetResult }> {
  const targetUrl = `http://${ALLOWED.address}:${ALLOWED.port}/`;
  const rule = { REDRIVE_ALLOW_TARGETS: `${ALLOWED.address}/32:${ALLOWED.port}` };
  const ruled = await startService(RULED_SERVICE.port, "ruled.db", rule);
  await addPolicies(ruled);
  const before = await runTarget(ruled, { row: "99", url: targetUrl, expected: "" }, 9999);
  const scheduledAt = Date.now() + 3_600_000;
  const waiting = { targetUrl, policyId: "ample", scheduledAt };
  const created = await ruled.call({ path: "/retry-tasks", body: waiting });
  await ruled.stop();
  const next = await startService(RULED_SERVICE.port, "ruled.db");
  await next.call({ path: `/retry-tasks/${created.json.taskId}/retry` });
  const { task, log } = await settled(next, created);
  const last = log.at(-1);
  await next.stop();
  const after = { summary: summaryOf(task, last), attempts: log.length, error: last?.errorMessage };
  return { before, after };
}

/** What has not ended yet. A process that hangs says so. */
const pending = new Set<string>();
const HANG_MS = 150_000;
setTimeout(() => {
  process.stderr.write(`still waiting for ${[...pending].join(", ")}\n`);
  process.exit(1);
}, HANG_MS).unref();

async function tracked<T>(name: string, work: Promise<T>): Promise<T> {
  pending.add(name);
  const result = await work;
  pending.delete(name);
  return result;
}

async function run(): Promise<Results> {
  writeFileSync(authorityFile, authority.cert);
  const dns = await dnsServer(worldZone(), 53);
  const servers = await Promise.all([80, ALLOWED.port, PROXY.port].map(countingServer));
  const proxy = `http://${PROXY.address}:${PROXY.port}`;
  const proxies = { HTTP_PROXY: proxy, http_proxy: proxy, NODE_USE_ENV_PROXY: "1" };
  const service = await startService(SERVICE.port, "hostile.db", proxies);
  await addPolicies(service);
  const [hostile, target, other, rules] = await Promise.all([
    Promise.all(
      HOSTILE_ROWS.map((row, at) =>
        tracked(`${row.row} ${row.does}`, runHostile(service, row, PUBLIC, at)),
      ),
    ),
    Promise.all(TARGET_ROWS.map((row, at) => tracked(row.url, runTarget(service, row, at)))),
    tracked("another service", runOtherService(service)),
    tracked("a removed rule", runRemovedRule()),
  ]);
  const refused = target.filter(({ attempts }) => attempts === 0).length;
  const stored = await countTasks(service);
  const health = (await service.get("/healthz")).status;
  const exitCode = await service.stop();
  dns.close();
  for (const server of servers) server.close();
  const { log, errors } = service;
  return {
    hostile,
    target,
    other,
    rules,
    hits: Object.fromEntries(hits),
    refused,
    stored,
    health,
    exitCode,
    log,
    errors,
  };
}

async function countTasks(service: ServiceProcess): Promise<number> {
  let count = 0;
  for (let cursor: string | null = ""; cursor !== null; ) {
    const after: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const { json } = await service.get(`/retry-tasks?limit=250${after}`);
    count += json.tasks.length;
    cursor = json.cursor;
  }
  return count;
}

const results = await run();
writeFileSync(join(folder, "results.json"), JSON.stringify(results));
process.exit(0);
