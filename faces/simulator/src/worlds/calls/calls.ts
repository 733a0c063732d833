/**
 * Calls: the general engine. Open or closed clients call tiers of servers under core's policies and
 * guards. It processes discrete events from a heap, one at a time.
 */

import { popEvent, pushEvent } from "../../events/heap.ts";
import { assertAtMost, MAX_EVENTS } from "../../events/limits.ts";
import { isProgressDue, type OnProgress } from "../../events/progress.ts";
import type { WorldRun } from "../../measure/world-run.ts";
import { drawsOf } from "../../random/draws.ts";
import { type DurationSampler, durationSampler, exponential } from "../../random/durations.ts";
import type { CallsScenario } from "../../scenario/scenario.ts";
import type { ClosedClients, OpenClients } from "../../scenario/scenario-document.ts";
import { NONE } from "../client-server/pools.ts";
import { addCallers, onAlarmDue, onExpire, startCall, tryAttempt } from "./attempts.ts";
import { onResponse, onTimeout } from "./outcomes.ts";
import { onHedge } from "./sending.ts";
import { onFinish, onReach, onServed, startService } from "./serving.ts";
import { ARRIVAL, createWorld, type RunOptions, START, serverOf, type World } from "./world.ts";

export function runCalls(
  scenario: CallsScenario,
  seed: number | string,
  options: RunOptions = {},
): WorldRun {
  const world = createWorld(scenario, seed, options);
  addCallers(world, drawsOf(seed, "guards"), options);
  const { clients } = scenario;
  if (clients.kind === "CLOSED") startClosed(world, clients);
  else scheduleArrival(world);
  runEvents(world, options.onProgress);
  const { timeline } = serverOf(world, world.servers.length - 1);
  return {
    engine: "calls",
    tally: world.tally,
    fairness: fairnessOf(world),
    triggerStartMs: timeline.startMs,
    triggerEndMs: timeline.endMs,
  };
}

/** Runs until no event is left or the horizon is reached. */
export function runEvents(world: World, onProgress?: OnProgress): void {
  const { heap, trace, scenario } = world;
  const { jobs } = scenario.clients as ClosedClients;
  for (let events = 0; popEvent(heap); events++) {
    const { at, kind, subject } = heap;
    // Clients with a fixed number of jobs run until the last job is done.
    if (at > scenario.horizonMs && jobs === undefined) return;
    assertAtMost(events, MAX_EVENTS, "events");
    world.now = at;
    if (onProgress !== undefined && isProgressDue(events)) onProgress(progressOf(world));
    trace?.add(at, kind, subject);
    (HANDLERS[kind] as Handler)(world, subject);
  }
}

/** The share of the run that is done: by jobs if their number is fixed, else by time. */
function progressOf({ scenario, tally, now }: World): number {
  const { clients, horizonMs } = scenario;
  const { jobs } = clients as ClosedClients;
  if (jobs === undefined) return Math.min(1, now / horizonMs);
  return (tally.succeeded + tally.lost) / (jobs * (clients.count ?? 1));
}

type Handler = (world: World, subject: number) => void;

/** By kind of event, in the order of `world.ts`. */
const HANDLERS: readonly Handler[] = [
  onArrival,
  tryAttempt,
  onReach,
  onServed,
  onResponse,
  onTimeout,
  onHedge,
  onStart,
  onFinish,
  startService,
  onExpire,
  onAlarmDue,
];

/** Poisson traffic by thinning: candidates arrive at the highest rate of the scenario. */
function scheduleArrival(world: World): void {
  const { ratePerSecond, untilMs } = world.scenario.clients as OpenClients;
  const { peakLoad } = serverOf(world, 0).timeline;
  const at = world.now + (1000 * exponential(world.arrivals)) / (ratePerSecond * peakLoad);
  if (at < (untilMs ?? world.scenario.horizonMs)) pushEvent(world.heap, at, ARRIVAL, 0);
}

function onArrival(world: World): void {
  scheduleArrival(world);
  const { peakLoad, loadAt } = serverOf(world, 0).timeline;
  const load = loadAt(world.now);
  if ((peakLoad > 1 || load < 1) && world.arrivals.next() * peakLoad >= load) return;
  const { count = 1 } = world.scenario.clients;
  onStart(world, count > 1 ? Math.floor(world.arrivals.next() * count) : 0);
}

function onStart(world: World, client: number): void {
  startCall(world, 0, client, NONE);
}

/** Closed clients: each starts its next call after its last one ends. */
function startClosed(world: World, clients: ClosedClients): void {
  const { count, startSpreadMs = 0 } = clients;
  const think: DurationSampler = durationSampler(clients.think ?? 0);
  const jobs = clients.jobs ?? Number.POSITIVE_INFINITY;
  for (let client = 0; client < count; client++) {
    const firstMs = clients.think === undefined ? 0 : think(world.arrivals);
    pushEvent(world.heap, (startSpreadMs * client) / count + firstMs, START, client);
  }
  world.onDone = (client, tookMs) => {
    if ((world.callsOf[client] as number) >= jobs) return;
    // Consecutive calls that take no time would stop the clock.
    const restMs = think(world.arrivals) || (tookMs > 0 ? 0 : 1);
    pushEvent(world.heap, world.now + restMs, START, client);
  };
}

/** Jain's fairness index of the success rates of all clients that made calls. */
function fairnessOf({ callsOf, successesOf }: World): number {
  let sum = 0;
  let squares = 0;
  let count = 0;
  for (let client = 0; client < callsOf.length; client++) {
    const calls = callsOf[client] as number;
    if (calls === 0) continue;
    const share = (successesOf[client] as number) / calls;
    sum += share;
    squares += share * share;
    count++;
  }
  return squares === 0 ? 1 : (sum * sum) / (count * squares);
}
