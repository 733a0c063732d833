/**
 * Live: one stream of events for the whole dashboard. It closes while the page is hidden, continues
 * with the last id, and reconnects after a restart of the service. The user can pause it as well. A
 * `reset` tells the pages to read their state again.
 */
import { batch, type ReadonlySignal, signal } from "@preact/signals";
import { type Cancel, systemClock } from "@redrive/core";
import { type EventView, isSignedOut, serviceUrl } from "./client.ts";

const TYPES = [
  "task.created",
  "task.succeeded",
  "task.exhausted",
  "task.cancelled",
  "attempt.started",
  "attempt.failed",
  "attempt.abandoned",
  "destination.changed",
  "breaker.opened",
  "breaker.closed",
] as const;

/** Events are handed over together this often, so that a thousand of them cause one change of the page. */
const FLUSH_MS = 150;

/** A browser gives up after an error response, for example from a proxy; we do not. */
const RECONNECT_MS = 2000;

export type LiveMessage = EventView | "reset";
type Listener = (message: LiveMessage) => void;

const listeners = new Set<Listener>();
type LiveState = "connecting" | "live" | "hidden" | "paused";
const state = signal<LiveState>("connecting");
/** Whether events arrive now. */
export const liveState: ReadonlySignal<LiveState> = state;

/** Calls the listener for each event, until the returned function is called. */
export function onLive(listener: Listener): Cancel {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let source: EventSource | undefined;
/** The user has paused the page. */
let isPaused = false;
let waiting: LiveMessage[] = [];
let lastEventId = "";
let cancelReconnect: Cancel = () => {};

/** Whether pages should load: not while the page is hidden or paused. */
export function isFollowing(): boolean {
  return !document.hidden && !isPaused;
}

/** Pauses the page, or continues with the events since then. */
export function togglePause(): void {
  isPaused = !isPaused;
  if (isPaused) stop("paused");
  else connect();
  document.dispatchEvent(new Event(FOLLOWING_CHANGED));
}

/** Sent to the document when `isFollowing` has changed because of the user. */
const FOLLOWING_CHANGED = "redrive-following";

interface Pausable {
  pause(): void;
  request(): void;
}

/** Loads now. A page that is paused then stays as it is. */
export function requestOnce(poller: Pausable): void {
  poller.request();
  if (!isFollowing()) poller.pause();
}

/** Pauses it while the page is hidden or paused, until the returned function is called. */
export function onFollowing(poller: Pausable): Cancel {
  const follow = () => (isFollowing() ? poller.request() : poller.pause());
  const types = ["visibilitychange", FOLLOWING_CHANGED];
  for (const type of types) document.addEventListener(type, follow);
  return () => {
    for (const type of types) document.removeEventListener(type, follow);
  };
}

export function startLive(): void {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop("hidden");
    else if (isPaused) state.value = "paused";
    else connect();
  });
  connect();
}

function connect(): void {
  if (source !== undefined || !isFollowing()) return;
  const address = new URL("events", serviceUrl);
  address.searchParams.set("type", "task,attempt,destination,breaker");
  if (lastEventId !== "") address.searchParams.set("lastEventId", lastEventId);
  const opened = new EventSource(address);
  source = opened;
  let hasFailed = false;
  opened.addEventListener("open", () => {
    state.value = "live";
    // Without an id, nobody knows what happened while the stream was down.
    if (hasFailed && lastEventId === "") publish("reset");
    hasFailed = false;
  });
  opened.addEventListener("error", () => {
    hasFailed = true;
    state.value = "connecting";
    if (opened.readyState === EventSource.CLOSED) retryLater();
  });
  opened.addEventListener("reset", (event) => {
    lastEventId = event.lastEventId;
    publish("reset");
  });
  for (const type of TYPES) opened.addEventListener(type, receive);
}

function receive(event: MessageEvent<string>): void {
  lastEventId = event.lastEventId;
  publish(JSON.parse(event.data) as EventView);
}

function publish(message: LiveMessage): void {
  waiting.push(message);
  if (waiting.length === 1) systemClock.alarm(FLUSH_MS, flush);
}

function flush(): void {
  const messages = waiting;
  waiting = [];
  batch(() => {
    for (const message of messages) for (const listener of listeners) listener(message);
  });
}

function stop(reason: "connecting" | "hidden" | "paused"): void {
  source?.close();
  source = undefined;
  cancelReconnect();
  state.value = reason;
}

function retryLater(): void {
  stop("connecting");
  cancelReconnect = systemClock.alarm(RECONNECT_MS, () => {
    if (isSignedOut.value) retryLater();
    else connect();
  });
}
