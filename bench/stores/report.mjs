/** Report: the tables of the benchmark as Markdown, and its verdicts. */
import { median, quantile } from "../service-parts.mjs";

/** @typedef {import("./peers.mjs").Values} Values */
/** @typedef {{ bar: string, got: string, ok: boolean }} Verdict */
/** @typedef {{ peers?: Map<string, Values>, fleet: Map<string, { one: number[], two: number[] }>, destinations: Map<string, Map<number, number>> }} Results */

/** A claim from one of 10,000 destinations may take this much longer than one of 10: the noise. */
const FLAT = 1.25;
const FLEET_SHARE = 0.9;
const BATCH_SHARE = 0.9;

const STORES = [
  {
    own: "Redrive, PostgreSQL",
    peers: ["pg-boss", "graphile-worker", "BullMQ, PostgreSQL"],
    enqueue: 8,
    ofRaw: 0.25,
  },
  { own: "Redrive, Redis", peers: ["BullMQ, Redis"], enqueue: 1, ofRaw: 0.3 },
];

/** The values of a contender as the table has them. @param {Values} values */
function summary(values) {
  const latency = (/** @type {number} */ share) =>
    median(values.latency.map((times) => quantile(times, share)));
  return {
    enqueue: median(values.enqueue),
    batches: median(values.batches),
    drain: median(values.drain),
    ofRaw: median(values.ofRaw),
    live: median(values.live),
    liveOfRaw: median(values.liveOfRaw),
    p50: latency(0.5),
    p99: latency(0.99),
  };
}

/** @param {Results} results @returns {string} */
export function tables({ peers, fleet, destinations }) {
  const parts = [];
  if (peers !== undefined) parts.push(peerTable(peers), cpuTable(peers));
  if (fleet.size > 0) parts.push(fleetTable(fleet));
  if (destinations.size > 0) parts.push(destinationTable(destinations));
  return parts.join("\n\n");
}

/** @param {Map<string, Values>} peers */
function peerTable(peers) {
  const head = [
    "",
    "enqueue, 64 callers",
    "in batches of 500",
    "drain",
    "of raw",
    "live",
    "of raw",
    "idle add-to-start, p50 / p99 ms",
  ];
  const rows = [...peers].map(([name, values]) => {
    const one = summary(values);
    const rates = [one.enqueue, one.batches, one.drain].map(perSecond);
    const shares = [fixed(one.ofRaw), perSecond(one.live), fixed(one.liveOfRaw)];
    const latencies = [one.p50, one.p99].map(fixed).filter(Boolean).join(" / ");
    return [name, ...rates, ...shares, latencies];
  });
  return markdown([head, ...rows]);
}

/** Of the contender and of its server. @param {Map<string, Values>} peers */
function cpuTable(peers) {
  const steps = /** @type {const} */ (["enqueue", "batches", "drain", "live"]);
  const rows = [...peers].map(([name, { cpu }]) => [
    name,
    ...steps.map((step) => {
      const all = cpu.get(step) ?? [];
      const times = [all.map(({ own }) => own), all.map(({ server }) => server)].map(median);
      return all.length === 0 ? "" : times.map(Math.round).join(" + ");
    }),
  ]);
  return markdown([["CPU time per job in us: contender + server", ...steps], ...rows]);
}

const MILLION = 1_000_000;

/**
 * What a core delivers, and the cores for a million tasks a second: from the CPU time per task while tasks
 * are added and delivered. @param {Results} results @returns {string}
 */
export function scaleTable({ peers = new Map() }) {
  const head = [
    "",
    "us per task: node + server",
    "tasks/s per core of a node",
    "tasks/s per core of the store",
    "1,000,000 tasks/s: cores of nodes",
    "cores of stores",
  ];
  const rows = STORES.flatMap(({ own }) => {
    const all = peers.get(own)?.cpu.get("live") ?? [];
    if (all.length === 0) return [];
    const times = [all.map((one) => one.own), all.map((one) => one.server)].map(median);
    const rates = times.map((us) => perSecond(MILLION / us));
    return [
      [own, times.map(Math.round).join(" + "), ...rates, ...times.map((us) => `${Math.ceil(us)}`)],
    ];
  });
  return markdown([head, ...rows]);
}

/** @param {Results["fleet"]} fleet */
function fleetTable(fleet) {
  const head = ["", "one node", "two nodes", "two / one"];
  const rows = [...fleet].map(([kind, { one, two }]) => {
    const rates = [median(one), median(two)];
    return [kind, ...rates.map(perSecond), fixed(shareOf(one, two))];
  });
  return markdown([head, ...rows]);
}

/** Of each round. @param {readonly number[]} one @param {readonly number[]} two */
function shareOf(one, two) {
  return median(two.map((rate, round) => rate / (one[round] ?? Number.NaN)));
}

/** @param {Results["destinations"]} destinations */
function destinationTable(destinations) {
  const counts = [...([...destinations.values()][0]?.keys() ?? [])];
  const head = [
    "ms of a commit with ten claims, by destinations",
    ...counts.map((one) => one.toLocaleString("en")),
  ];
  const rows = [...destinations].map(([kind, times]) => [kind, ...[...times.values()].map(fixed)]);
  return markdown([head, ...rows]);
}

/** @param {number} value */
function perSecond(value) {
  return Number.isNaN(value) ? "" : `${Math.round(value).toLocaleString("en")}/s`;
}

/** @param {number} value */
function fixed(value) {
  return Number.isNaN(value) ? "" : value.toFixed(2);
}

/** @param {readonly (readonly string[])[]} rows */
function markdown([head = [], ...rows]) {
  const line = (/** @type {readonly string[]} */ cells) => `| ${cells.join(" | ")} |`;
  return [
    line(head),
    line(head.map((_, at) => (at === 0 ? "---" : "---:"))),
    ...rows.map(line),
  ].join("\n");
}

/** @param {Results} results @returns {Verdict[]} */
export function verdicts({ peers, fleet, destinations }) {
  const all = peers === undefined ? [] : STORES.flatMap((store) => peerVerdicts(peers, store));
  for (const [kind, { one, two }] of fleet) {
    all.push(atLeast(`${kind}: two nodes / one node`, shareOf(one, two), FLEET_SHARE));
  }
  for (const [kind, times] of destinations) {
    const [few = Number.NaN] = times.values();
    const many = [...times.values()].at(-1) ?? Number.NaN;
    const bar = `${kind}: claims at ${[...times.keys()].at(-1)} destinations at most ${FLAT} x`;
    all.push({ bar, got: fixed(many / few), ok: many / few <= FLAT });
  }
  return all;
}

/** @param {Map<string, Values>} peers @param {(typeof STORES)[number]} store @returns {Verdict[]} */
function peerVerdicts(peers, { own, peers: names, enqueue, ofRaw }) {
  const values = peers.get(own);
  if (values === undefined) return [];
  const ours = summary(values);
  const others = names.flatMap((name) => {
    const other = peers.get(name);
    return other === undefined ? [] : [{ name, ...summary(other) }];
  });
  const bestBatches = Math.max(...others.map(({ batches }) => batches));
  return [
    ...others.flatMap((other) => [
      atLeast(`${own}: enqueue / ${other.name}`, ours.enqueue / other.enqueue, enqueue),
      atLeast(`${own}: drain / ${other.name}`, ours.drain / other.drain, 1),
      atLeast(`${own}: live / ${other.name}`, ours.live / other.live, 1),
      atLeast(`${own}: p50 of ${other.name} / own`, other.p50 / ours.p50, 1),
      atLeast(`${own}: p99 of ${other.name} / own`, other.p99 / ours.p99, 1),
    ]),
    atLeast(`${own}: batches / best peer`, ours.batches / bestBatches, BATCH_SHARE),
    atLeast(`${own}: drain / raw`, ours.ofRaw, ofRaw),
  ];
}

/** @param {string} bar @param {number} got @param {number} least @returns {Verdict} */
function atLeast(bar, got, least) {
  return { bar: `${bar}: at least ${least}`, got: fixed(got), ok: got >= least };
}
