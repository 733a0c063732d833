/**
 * Run: starts the servers and the sink, measures, prints the tables and the verdicts, and exits with 1 if
 * a result misses its limit. With `--write`, the tables replace those of docs/benchmarks.md and
 * docs/scale.md.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { printVerdicts } from "../bars.mjs";
import { startSink } from "../service-parts.mjs";
import { measureDestinations } from "./destinations.mjs";
import { measureFleet } from "./fleet.mjs";
import { measurePeers } from "./peers.mjs";
import { scaleTable, tables, verdicts } from "./report.mjs";
import { measureRetention } from "./retention.mjs";
import { Servers } from "./servers.mjs";
import { LATENCIES, PARTS, ROUNDS, TASKS, WARMUP } from "./settings.mjs";

const BEGIN = "<!-- stores: begin -->";
const END = "<!-- stores: end -->";
const KINDS = /** @type {const} */ (["postgres", "redis"]);

const startMs = performance.now();
const servers = new Servers();
const sink = await startSink();
/** @type {import("./report.mjs").Results} */
const results = { fleet: new Map(), destinations: new Map() };
try {
  if (PARTS.includes("peers")) results.peers = await measurePeers(servers, sink);
  for (const kind of KINDS) {
    if (PARTS.includes("fleet")) results.fleet.set(kind, await measureFleet(servers, sink, kind));
  }
  for (const kind of KINDS) {
    if (!PARTS.includes("destinations")) break;
    results.destinations.set(kind, await measureDestinations(servers, kind));
  }
  for (const kind of KINDS) {
    if (PARTS.includes("retention")) await measureRetention(servers, kind);
  }
  const text = `${machine(await servers.version())}\n\n${tables(results)}`;
  process.stdout.write(`\n${text}\n\n`);
  printVerdicts("stores", verdicts(results));
  if (process.argv.includes("--write")) {
    write("benchmarks.md", text);
    if (results.peers !== undefined) write("scale.md", scaleTable(results));
  }
} finally {
  sink.stop();
  await servers.stop();
}

/** What the tables depend on. @param {string} postgres the version of the server */
function machine(postgres) {
  const [cpu] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  const counts = `${TASKS} jobs per measurement after ${WARMUP}, ${LATENCIES} latencies, medians of ${ROUNDS} rounds`;
  const minutes = Math.round((performance.now() - startMs) / 60_000);
  return `${cpus().length} x ${cpu?.model.trim()}, ${memory} GiB, Node ${process.version}, PostgreSQL ${postgres}; ${counts}; ${minutes} minutes.`;
}

/** Replaces what is between the marks. @param {string} page in docs/ @param {string} text */
function write(page, text) {
  const file = new URL(`../../docs/${page}`, import.meta.url);
  const old = readFileSync(file, "utf8");
  const from = old.indexOf(BEGIN);
  const to = old.indexOf(END);
  if (from < 0 || to < from) throw new Error(`docs/${page} needs ${BEGIN} and ${END}`);
  writeFileSync(file, `${old.slice(0, from + BEGIN.length)}\n${text}\n${old.slice(to)}`);
}
