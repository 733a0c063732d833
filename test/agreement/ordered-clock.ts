/**
 * Ordered clock: a virtual clock on which the events of one instant happen in the same order in every
 * face: attempts end first, then timers of the face fire, then new calls arrive, and what a face leaves
 * for the end of its turn comes last. A real event loop leaves that order open.
 */
import { type Clock, type VirtualClock, virtualClock } from "@redrive/core";

export interface OrderedClock {
  readonly base: VirtualClock;
  /** For the ends of attempts. */
  readonly ends: Pick<Clock, "alarm">;
  /** For the face. */
  readonly face: Clock;
  /** For the arrivals of calls. */
  readonly arrivals: Pick<Clock, "alarm">;
}

interface Event {
  readonly at: number;
  readonly rank: number;
  readonly fn: () => void;
}

const END_OF_EVENT = 0;
const ENDS = 1;
const TIMERS = 2;
const ARRIVALS = 3;
const END_OF_INSTANT = 4;

/** A turn of the face's event loop is one event, or all events of an instant. */
export function orderedClock(startAt: number, turn: "event" | "instant"): OrderedClock {
  const base = virtualClock(startAt);
  /** In the order in which they were set. */
  const events: Event[] = [];
  const remove = (event: Event) => void events.splice(events.indexOf(event), 1);

  /** One alarm of the base clock per event. Each runs the first event of its instant, maybe another one. */
  const alarmAt = (rank: number) => (ms: number, fn: () => void) => {
    const event: Event = { at: base.now() + Math.max(0, Math.ceil(ms)), rank, fn };
    events.push(event);
    const cancel = base.alarm(ms, () => {
      const due = events.filter(({ at }) => at <= base.now());
      const [next] = due.toSorted((a, b) => a.at - b.at || a.rank - b.rank);
      if (next === undefined) return;
      remove(next);
      next.fn();
    });
    return () => {
      if (!events.includes(event)) return;
      remove(event);
      cancel();
    };
  };

  const alarm = alarmAt(TIMERS);
  const atEndOfTurn = alarmAt(turn === "event" ? END_OF_EVENT : END_OF_INSTANT);
  const face: Clock = {
    ...base,
    alarm,
    sleep: (ms) => new Promise((resolve) => void alarm(ms, resolve)),
    endOfTurn: (fn) => void atEndOfTurn(0, fn),
  };
  return {
    base,
    face,
    ends: { alarm: alarmAt(ENDS) },
    arrivals: { alarm: alarmAt(ARRIVALS) },
  };
}
