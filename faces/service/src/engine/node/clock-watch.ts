/** Clock watch: publishes an event when engine time stops or starts to agree with the wall clock. */
import { formatDuration } from "@redrive/core";
import type { ClockState, ClockStatus, EngineTime } from "../../time/engine-time.ts";
import type { EngineEventType } from "../events/engine-event.ts";
import type { EngineEvents } from "../events/engine-events.ts";

const TYPES: Readonly<Record<ClockState, EngineEventType>> = {
  synced: "clock.synced",
  following: "clock.following",
  ahead: "clock.ahead",
  refused: "clock.refused",
};

export class ClockWatch {
  readonly #time: EngineTime;
  readonly #events: EngineEvents;
  #state: ClockState = "synced";

  constructor(time: EngineTime, events: EngineEvents) {
    this.#time = time;
    this.#events = events;
  }

  check(): void {
    const status = this.#time.status();
    if (status.state === this.#state) return;
    this.#state = status.state;
    const event = { type: TYPES[status.state], reason: describeClock(status) };
    this.#events.emit(this.#time.now(), event);
  }
}

/** One sentence about the clock and what the service does. */
export function describeClock({ state, skewMs }: ClockStatus): string {
  const side = skewMs > 0 ? "ahead of" : "behind";
  const distance = `the wall clock is ${formatDuration(Math.abs(skewMs))} ${side} engine time`;
  switch (state) {
    case "synced":
      return "the wall clock and engine time agree";
    case "following":
      return `${distance}; engine time follows, by at most an hour every 10 s`;
    case "ahead":
      return `${distance}; engine time runs 1 % slower until they agree`;
    case "refused":
      return `${distance}, which is refused: the service continues on the monotonic clock; set the clock, or restart the service if the clock is right`;
  }
}
