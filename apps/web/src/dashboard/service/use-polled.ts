/** Use polled: a hook that keeps what a page shows current, by polling and by events. */
import { useSignal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { useLayoutEffect, useRef } from "preact/hooks";
import { type EventView, problemOf } from "./client.ts";
import { onFollowing, onLive, requestOnce } from "./live.ts";
import { Poller } from "./poller.ts";

export interface Polled<T> {
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

/** `key` names what is loaded: another key starts again. Nothing is loaded while the page is hidden. */
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
