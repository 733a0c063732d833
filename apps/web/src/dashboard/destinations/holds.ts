/** Holds: what is held now, by guard: at which destinations, how many tasks wait there, since when. */
import type { DestinationView } from "../service/client.ts";

export interface HoldGroup {
  /** The guard, as the API names it. */
  readonly by: string;
  readonly destinations: readonly string[];
  /** Waiting tasks of these destinations. */
  readonly waiting: number;
  /** When the first of these holds began; undefined: not known. */
  readonly sinceAt: number | undefined;
}

interface Hold {
  readonly by: string;
  readonly sinceAt: number | undefined;
}

/** The guard that holds the most waiting tasks first. */
export function holdGroups(
  destinations: readonly DestinationView[],
  now: number,
): readonly HoldGroup[] {
  const groups = new Map<string, HoldGroup>();
  for (const destination of destinations) {
    const waiting = destination.tasks["PENDING"] ?? 0;
    if (waiting === 0) continue;
    for (const { by, sinceAt } of holdsOf(destination, now)) {
      const group = groups.get(by);
      groups.set(by, {
        by,
        destinations: [...(group?.destinations ?? []), destination.name],
        waiting: (group?.waiting ?? 0) + waiting,
        sinceAt: earlier(group?.sinceAt, sinceAt),
      });
    }
  }
  return [...groups.values()].sort((one, other) => other.waiting - one.waiting);
}

/** Each guard once. The row knows pauses, gates and circuits of the whole fleet. */
function holdsOf(destination: DestinationView, now: number): readonly Hold[] {
  const { held, pausedAt, gateUntil, breakerState, openUntil } = destination;
  const found = new Map<string, number | undefined>();
  if (pausedAt !== null) found.set("pause", pausedAt);
  if (breakerState !== "CLOSED" && openUntil > now) found.set("circuit-open", undefined);
  if (gateUntil > now) found.set("retry-after", undefined);
  for (const { by, sinceAt } of held) found.set(by, earlier(found.get(by), sinceAt));
  return [...found].map(([by, sinceAt]) => ({ by, sinceAt }));
}

function earlier(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.min(one, other);
}
