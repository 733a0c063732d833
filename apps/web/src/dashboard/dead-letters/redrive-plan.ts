/**
 * Redrive plan: the dead letters that a redrive takes, frozen when the user sees them, and how long it
 * takes. Dead letters that arrive later are not included.
 */
import { formatDuration, formatInteger } from "@redrive/core";
import { REDRIVE_BOUNDS } from "@redrive/service/client";
import type { DeadLetterGroup, RedriveToStart, TaskView } from "../service/client.ts";

export type FrozenFilter = NonNullable<RedriveToStart["filter"]>;

/** Dead letters by a frozen filter, or by their ids. */
export type RedriveSet =
  | { readonly title: string; readonly filter: FrozenFilter }
  | {
      readonly title: string;
      readonly taskIds: readonly string[];
      readonly samples: readonly TaskView[];
    };

/**
 * The filter of exactly this group, up to its last dead letter. Undefined for a group without a
 * reason: no filter of the API selects it, and a wider one would take others as well.
 */
export function frozenFilter(group: DeadLetterGroup): FrozenFilter | undefined {
  const { destination, reason, lastFinishedAt } = group;
  return reason === null ? undefined : { destination, reason, finishedTo: lastFinishedAt + 1 };
}

export interface Pace {
  /** As typed. */
  readonly rate: string;
  readonly canary: string;
}

/** What is wrong with the pace, or "". */
export function paceProblem({ rate, canary }: Pace): string {
  const { ratePerSecond, canary: first } = REDRIVE_BOUNDS;
  if (!isWithin(Number(rate), ratePerSecond) || rate.trim() === "") {
    return `The rate must be a number from ${ratePerSecond.minimum} to ${formatInteger(ratePerSecond.maximum)} per second, got "${rate}".`;
  }
  if (!isWithin(Number(canary), first) || !/^\d+$/u.test(canary.trim())) {
    return `The canary must be a whole number from ${first.minimum} to ${first.maximum}, got "${canary}".`;
  }
  return "";
}

function isWithin(
  value: number,
  { minimum, maximum }: { readonly minimum: number; readonly maximum: number },
): boolean {
  return value >= minimum && value <= maximum;
}

/** "at 10 per second this takes about 20 s". */
export function paceSentence(total: number, { rate }: Pace): string {
  const durationMs = Math.ceil(total / Number(rate)) * 1000;
  return `At ${rate} per second this takes about ${formatDuration(durationMs)}, plus the time of the attempts.`;
}
