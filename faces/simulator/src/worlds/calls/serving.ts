/**
 * Serving: a request arrives at a server, waits in the queue and is served. At any tier but the
 * last it then becomes a call to the next tier.
 */
import { pushEvent } from "../../events/heap.ts";
import { countArrivals, recordQueue } from "../../measure/tally.ts";
import { NONE, release } from "../client-server/pools.ts";
import {
  ACCEPTED,
  arrivalResult,
  dequeue,
  enqueue,
  OK,
  REFUSED,
  responseMs,
  type Server,
  SILENT,
  serviceTime,
} from "../client-server/server.ts";
import { ALL_SHARDS } from "../client-server/timeline.ts";
import { startCall } from "./attempts.ts";
import { FINISH, isAwaited, respond, SERVED, serverOf, WAKE, type World } from "./world.ts";

export function onReach(world: World, request: number): void {
  const { requests, now } = world;
  const tier = requests.tier[request] as number;
  const server = serverOf(world, tier);
  if (tier === world.servers.length - 1) countArrivals(world.tally, now, 1);
  const verdict = arrivalResult(server, now, requests.shard[request] as number, world.draws);
  if (verdict === ACCEPTED) {
    accept(world, server, tier, request);
    return;
  }
  if (verdict !== SILENT) respond(world, request, verdict);
  release(requests, request);
}

/** The queue or the FINISH event takes over the reference of the REACH event. */
function accept(world: World, server: Server, tier: number, request: number): void {
  if (server.serviceMs === 0) {
    finishLater(world, server, request);
    return;
  }
  enqueue(server, request);
  recordQueue(world.tally, world.now, server.waiting * server.serviceMs);
  if (server.serving === NONE) startService(world, tier);
}

function finishLater(world: World, server: Server, request: number): void {
  server.inProgress++;
  const shard = world.requests.shard[request] as number;
  const tookMs = responseMs(server, world.now, shard, world.draws);
  pushEvent(world.heap, world.now + tookMs, FINISH, request);
}

export function startService(world: World, tier: number): void {
  const server = serverOf(world, tier);
  if (server.serving !== NONE || server.waiting === 0) return;
  const serviceMs = serviceTime(server, world.now, world.draws);
  if (serviceMs === Number.POSITIVE_INFINITY) {
    waitForTimeline(world, server, tier);
    return;
  }
  const request = nextRequest(world, server);
  if (request === NONE) return;
  server.serving = request;
  pushEvent(world.heap, world.now + serviceMs, SERVED, tier);
}

/** The next request. Skips requests that no client waits for, if the server drops expired work. */
function nextRequest(world: World, server: Server): number {
  for (;;) {
    const request = dequeue(server);
    if (request === NONE || !server.dropsExpired || isAwaited(world, request)) return request;
    release(world.requests, request);
  }
}

/** The server is stopped: checks again when the timeline changes. A failover loses the queue. */
function waitForTimeline(world: World, server: Server, tier: number): void {
  const { lostQueue, hangs } = server.timeline.conditionAt(world.now, ALL_SHARDS);
  if (lostQueue) {
    for (let request = dequeue(server); request !== NONE; request = dequeue(server)) {
      if (!hangs) respond(world, request, REFUSED);
      release(world.requests, request);
    }
  }
  const at = server.timeline.edgeAfter(world.now);
  if (server.wakeAt === at || at === Number.POSITIVE_INFINITY) return;
  server.wakeAt = at;
  pushEvent(world.heap, at, WAKE, tier);
}

export function onServed(world: World, tier: number): void {
  const server = serverOf(world, tier);
  const request = server.serving;
  server.serving = NONE;
  if (request !== NONE) finishLater(world, server, request);
  startService(world, tier);
}

/** The server has finished its own work on a request: it responds, or calls the next tier. */
export function onFinish(world: World, request: number): void {
  const { requests, calls } = world;
  const tier = requests.tier[request] as number;
  serverOf(world, tier).inProgress--;
  if (tier === world.servers.length - 1) {
    respond(world, request, OK);
    release(requests, request);
    return;
  }
  const client = calls.client[requests.call[request] as number] as number;
  startCall(world, tier + 1, client, request);
}
