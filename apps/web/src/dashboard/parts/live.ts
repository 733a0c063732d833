/**
 * Live: keeps pages current, by polling and by one stream of events for the whole dashboard. The stream
 * closes while the page is hidden, continues with the last id, and reconnects after a restart of the
 * service. The user can pause it as well. A `reset` tells the pages to read their state again.
 */
import { batch, type ReadonlySignal, signal, useSignal } from "@preact/signals";
import { type Cancel, systemClock, type TimeSource } from "@redrive/core";
import { useLayoutEffect, useRef } from "preact/hooks";
import { type EventView, isSignedOut, problemOf, serviceUrl } from "./client.ts";

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

type LiveMessage = EventView | "reset";
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
function isFollowing(): boolean {
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

interface Polled<T> {
  /** Undefined until the first response. */
  readonly data: T | undefined;
  /** Why the last request failed, or "". */
  readonly problem: string;
  /** Reads again now, for example after an action. */
  reload(): void;
}

interface PolledOptions {
  readonly everyMs: number;
  /** After an event. Default: that of `Poller`. */
  readonly eventDelayMs?: number;
  /** Whether the event changes what the page shows. Default: none does. */
  readonly isConcerned?: (event: EventView) => boolean;
}

/**
 * A hook that keeps what a page shows current. `key` names what is loaded: another key starts again.
 * Nothing is loaded while the page is hidden.
 */
export function usePolled<T>(
  key: string,
  load: () => Promise<T>,
  { everyMs, eventDelayMs, isConcerned = () => false }: PolledOptions,
): Polled<T> {
  const state = useSignal<{ readonly key: string; readonly data?: T; readonly problem: string }>({
    key,
    problem: "",
  });
  const poller = useRef<Poller<T> | undefined>(undefined);
  // Before the next frame, so that the request does not wait for it.
  useLayoutEffect(() => {
    const started = new Poller<T>({
      clock: systemClock,
      everyMs,
      eventDelayMs,
      load,
      onLoaded: (data) => {
        state.value = { key, data, problem: "" };
      },
      onFailed: (error) => {
        const { key: known, data } = state.peek();
        const kept = known === key && data !== undefined ? { data } : {};
        state.value = { key, ...kept, problem: problemOf(error) };
      },
    });
    poller.current = started;
    requestOnce(started);
    const stopFollowing = onFollowing(started);
    const stopListening = onLive((message) => {
      if (message === "reset" || isConcerned(message)) started.requestSoon();
    });
    return () => {
      started.stop();
      stopListening();
      stopFollowing();
    };
  }, [key]);
  const { value } = state;
  const isCurrent = value.key === key;
  return {
    data: isCurrent ? value.data : undefined,
    problem: isCurrent ? value.problem : "",
    reload: () => poller.current && requestOnce(poller.current),
  };
}

// Poller: loads something again and again, one request at a time. The next request starts some time
// after the previous response, so that a slow service gets fewer requests.

interface PollerOptions<T> {
  readonly clock: Pick<TimeSource, "alarm">;
  /** From a response to the next request. */
  readonly everyMs: number;
  /** Requests that follow an event wait this long. Default: `EVENT_DELAY_MS`. */
  readonly eventDelayMs?: number | undefined;
  load(): Promise<T>;
  onLoaded(value: T): void;
  onFailed(error: unknown): void;
}

/** Many events cause one request. */
export const EVENT_DELAY_MS = 500;

export class Poller<T> {
  readonly #options: PollerOptions<T>;
  #cancel: Cancel = () => {};
  #isLoading = false;
  #isStopped = false;
  /** Something changed while a request was under way: its response may be old. */
  #isOutdated = false;
  /** A request that follows an event is scheduled. */
  #isSoon = false;
  #isPaused = false;

  constructor(options: PollerOptions<T>) {
    this.#options = options;
  }

  /** Loads now. */
  request(): void {
    this.#cancel();
    this.#isPaused = false;
    this.#isSoon = false;
    if (this.#isStopped) return;
    if (this.#isLoading) this.#isOutdated = true;
    else void this.#load();
  }

  /** Loads soon: something has changed. */
  requestSoon(): void {
    if (this.#isSoon || this.#isStopped || this.#isPaused) return;
    if (this.#isLoading) {
      this.#isOutdated = true;
      return;
    }
    this.#isSoon = true;
    this.#schedule(this.#eventDelayMs);
  }

  get #eventDelayMs(): number {
    return this.#options.eventDelayMs ?? EVENT_DELAY_MS;
  }

  /** Stops until the next `request`. */
  pause(): void {
    this.#isPaused = true;
    this.#cancel();
    this.#isSoon = false;
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  async #load(): Promise<void> {
    this.#isLoading = true;
    this.#isOutdated = false;
    try {
      const value = await this.#options.load();
      if (!this.#isStopped) this.#options.onLoaded(value);
    } catch (error) {
      if (!this.#isStopped) this.#options.onFailed(error);
    }
    this.#isLoading = false;
    if (this.#isStopped || this.#isPaused) return;
    this.#isSoon = this.#isOutdated;
    this.#schedule(this.#isOutdated ? this.#eventDelayMs : this.#options.everyMs);
  }

  #schedule(ms: number): void {
    this.#cancel();
    this.#cancel = this.#options.clock.alarm(ms, () => this.request());
  }
}
