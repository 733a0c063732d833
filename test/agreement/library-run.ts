/** Library run: runs a guard case through `destination().run` on a virtual clock. */
import { type HoldReason, type Outcome, seededRandom, WaitingCalls } from "@redrive/core";
import { destination } from "redrive";
import type { GuardCase } from "./guard-cases.ts";
import {
  type GuardedRun,
  type RunAttempt,
  type RunEnd,
  type RunRetry,
  sortedRun,
} from "./guarded-run.ts";
import { orderedClock } from "./ordered-clock.ts";

export const START_AT = 1_700_000_000_000;
export const NAME = "shop";

/** Also contains every retry that was decided, sent or not. */
export interface LibraryRun extends GuardedRun {
  readonly retries: readonly RunRetry[];
}

export async function runLibrary(given: GuardCase): Promise<LibraryRun> {
  const { base, face: clock, ends: endsClock, arrivals } = orderedClock(START_AT, "instant");
  const now = () => base.now() - START_AT;
  const attempts: RunAttempt[] = [];
  const ends: RunEnd[] = [];
  const retries: RunRetry[] = [];
  const dueAt = [...given.arrivals];
  const holds = recordHolds();
  const shop = destination(NAME, {
    ...given.document,
    clock,
    random: seededRandom(given.seed),
  });
  const calls = given.arrivals.map(async (arrival, call) => {
    await new Promise<void>((resolve) => arrivals.alarm(arrival, resolve));
    const idempotencyKey = keyOf(call);
    return shop
      .run<Outcome>(
        async ({ attempt, copy }) => {
          const at = now();
          const due = copy > 0 ? at : (dueAt[call] ?? 0);
          const by = holds.of(idempotencyKey);
          attempts.push({
            call,
            attempt,
            copy,
            dueAt: due,
            at,
            ...(at > due && by && { heldBy: by }),
          });
          const { outcome, durationMs } = given.outcomeOf(call, attempt, copy);
          await new Promise<void>((resolve) => endsClock.alarm(durationMs, resolve));
          return outcome;
        },
        {
          idempotencyKey,
          patience: given.patience,
          classify: (end) => ("value" in end ? end.value : undefined),
          onEvent: (event) => {
            if (event.type === "retry") {
              dueAt[call] = now() + event.delayMs;
              retries.push({ call, decidedAt: now(), dueAt: now() + event.delayMs });
            }
            if (event.type === "success") ends.push({ call, at: now(), reason: "succeeded" });
            if (event.type !== "give-up") return;
            const { reason, by } = event;
            ends.push({ call, at: now(), reason, ...(by && { by }) });
          },
        },
      )
      .catch(() => undefined);
  });
  try {
    await base.run(Promise.all(calls));
  } finally {
    holds.stop();
  }
  return { ...sortedRun({ attempts, ends }), retries };
}

export function keyOf(call: number): string {
  return `call-${call}`;
}

/** The library reports when a hold begins. Only the queue knows which guard held the call last. */
function recordHolds() {
  const latest = new Map<string, HoldReason>();
  const { remove } = WaitingCalls.prototype;
  WaitingCalls.prototype.remove = function (entry) {
    const call = entry.call as { options?: { idempotencyKey?: string } };
    const key = call.options?.idempotencyKey;
    if (key !== undefined && entry.isWaiting) latest.set(key, entry.lane.heldBy);
    remove.call(this, entry);
  };
  return {
    of: (key: string) => latest.get(key),
    stop: () => {
      WaitingCalls.prototype.remove = remove;
    },
  };
}
