/**
 * Limits: no node has more requests at a destination than its document allows, and none takes places
 * of its rate faster than that allows. A claim is made under the document that stands; what was
 * claimed under one and leaves under the next may keep to either.
 */
import type { RateOptions } from "@redrive/core";
import type { StartedTask } from "../../../faces/service/src/model/batch.ts";
import { documentOf } from "../documents.ts";
import { assertThat, type Checker, type Committed, type Sent } from "../history.ts";

interface Claim {
  /** The place in the destination's documents that stood when it was made. */
  readonly era: number;
  readonly claimedAt: number;
}

/** What rounding may add up to. */
const ROUNDING = 1e-6;

const keyOf = ({ taskId, claimEpoch }: StartedTask) => `${taskId}/${claimEpoch}`;
const placeOf = ({ nodeId, task }: Sent) => `${nodeId}/${task.destination}`;

export function limits(): Checker {
  const name = "limits kept";
  /** The documents of each destination, one after the other. */
  const eras = new Map<string, (string | null)[]>();
  const claims = new Map<string, Claim>();
  const underWay = new Map<string, number>();
  /** When the places were taken, by node, destination and era. */
  const taken = new Map<string, { readonly rate: RateOptions; readonly at: number[] }>();
  const erasOf = (destination: string) => eras.get(destination) ?? [null];

  function noteDocuments({ batch, result }: Committed): void {
    for (const [index, { row }] of batch.destinations.entries()) {
      const before = erasOf(row.name);
      if (result.destinations[index] !== null || before.at(-1) === row.document) continue;
      eras.set(row.name, [...before, row.document]);
    }
  }

  function noteClaim(task: StartedTask): void {
    const era = erasOf(task.destination).length - 1;
    claims.set(keyOf(task), { era, claimedAt: task.claimedAt });
  }

  function noteRate(event: Sent, { era, claimedAt }: Claim): void {
    const { destination } = event.task;
    const rate = documentOf(erasOf(destination)[era] ?? null).rate?.limit;
    if (rate === undefined) return;
    const place = `${placeOf(event)}/${era}`;
    const { at } = taken.get(place) ?? { at: [] as number[] };
    at.push(claimedAt);
    taken.set(place, { rate, at });
  }

  return {
    name,
    committed(event) {
      noteDocuments(event);
      for (const create of event.result.creates) {
        if (create.kind === "created" && create.started) noteClaim(create.started);
      }
      for (const { tasks } of event.result.claims) tasks.forEach(noteClaim);
    },
    sent(event) {
      const { task } = event;
      const claim = claims.get(keyOf(task));
      if (claim === undefined) return;
      noteRate(event, claim);
      const place = placeOf(event);
      const count = (underWay.get(place) ?? 0) + 1;
      underWay.set(place, count);
      const since = erasOf(task.destination).slice(claim.era);
      const most = Math.max(
        ...since.map((text) => documentOf(text).concurrency?.max ?? Number.POSITIVE_INFINITY),
      );
      assertThat(name, count <= most, () => `${place}: ${count} under way, of ${most}`);
    },
    left(event) {
      const place = placeOf(event);
      underWay.set(place, (underWay.get(place) ?? 0) - 1);
    },
    finished() {
      for (const [place, { rate, at }] of taken) {
        const early = firstEarly(
          rate,
          at.toSorted((a, b) => a - b),
        );
        assertThat(name, early === undefined, () => `${place}: ahead of its rate at ${early}`);
      }
    },
  };
}

/** The first that comes before the rate, a leaky bucket, lets it. */
function firstEarly({ perSecond, burst }: RateOptions, at: readonly number[]): number | undefined {
  let ahead = 0;
  let before = at[0] ?? 0;
  for (const instant of at) {
    ahead = Math.max(0, ahead - ((instant - before) * perSecond) / 1000);
    if (ahead > burst - 1 + ROUNDING) return instant;
    ahead++;
    before = instant;
  }
  return undefined;
}
