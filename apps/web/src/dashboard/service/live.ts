/**
 * Live: one stream of events for the whole dashboard. It closes while the page is hidden, continues
 * with the last id, and reconnects after a restart of the service. A `reset` tells the pages to read
 * their state again.
 */
import { type ReadonlySignal, signal } from "@preact/signals";
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

/** A browser gives up after an error response, for example from a proxy; we do not. */
const RECONNECT_MS = 2000;

export type LiveMessage = EventView | "reset";
type Listener = (message: LiveMessage) => void;

const listeners = new Set<Listener>();
const state = signal<"connecting" | "live" | "hidden">("connecting");
/** Whether events arrive now. */
export const liveState: ReadonlySignal<"connecting" | "live" | "hidden"> = state;

/** Calls the listener for each event, until the returned function is called. */
export function onLive(listener: Listener): Cancel {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let source: EventSource | undefined;
let lastEventId = "";
let cancelReconnect: Cancel = () => {};

export function startLive(): void {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop("hidden");
    else connect();
  });
  connect();
}

function connect(): void {
  if (source !== undefined || document.hidden) return;
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
  for (const listener of listeners) listener(message);
}

function stop(reason: "connecting" | "hidden"): void {
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
