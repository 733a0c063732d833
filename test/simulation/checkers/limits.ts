/**
 * Limits: no node has more concurrent requests at a destination than its document allows, and no
 * node takes slots of its rate limit faster than allowed. A claim is made under the current document.
 * A claim that is made under one document and sent under the next may follow either.
 */
import type { RateOptions } from "@redrive/core";
import type { StartedTask } from "../../../faces/service/src/model/batch.ts";
import { documentOf } from "../documents.ts";
import { assertThat, type Checker, type Committed, type Sent } from "../history.ts";

interface Claim {
  /** The index of the destination's document at the time of the claim. */
  readonly era: number;
  readonly claimedAt: number;
}

/** The maximum sum of rounding errors. */
const ROUNDING = 1e-6;

const keyOf = ({ taskId, claimEpoch }: StartedTask) => `${taskId}/${claimEpoch}`;
const streamOf = ({ nodeId, task }: Sent) => `${nodeId}/${task.destination}`;

export function limits(): Checker {
  const name = "limits kept";
  /** The documents of each destination, in order. */
  const eras = new Map<string, (string | null)[]>();
  const claims = new Map<string, Claim>();
  const underWay = new Map<string, number>();
  /** When the slots were taken, by node, destination and era. */
  const taken = new Map<string, { readonly rate: RateOptions; readonly at: number[] }>();
  const erasOf = (destination: string) => eras.get(destination) ?? [null];

  function recordDocuments({ batch, result }: Committed): void {
    for (const [index, { row }] of batch.destinations.entries()) {
      const before = erasOf(row.name);
      if (result.destinations[index] !== null || before.at(-1) === row.document) continue;
      eras.set(row.name, [...before, row.document]);
    }
  }

  function recordClaim(task: StartedTask): void {
    const era = erasOf(task.destination).length - 1;
    claims.set(keyOf(task), { era, claimedAt: task.claimedAt });
  }

  function recordRate(event: Sent, { era, claimedAt }: Claim): void {
    const { destination } = event.task;
    const rate = documentOf(erasOf(destination)[era] ?? null).rate?.limit;
    if (rate === undefined) return;
    const stream = `${streamOf(event)}/${era}`;
    const { at } = taken.get(stream) ?? { at: [] as number[] };
    at.push(claimedAt);
    taken.set(stream, { rate, at });
  }

  return {
    name,
    committed(event) {
      recordDocuments(event);
      for (const create of event.result.creates) {
        if (create.kind === "created" && create.started) recordClaim(create.started);
      }
      for (const { tasks } of event.result.claims) tasks.forEach(recordClaim);
    },
    sent(event) {
      const { task } = event;
      const claim = claims.get(keyOf(task));
      if (claim === undefined) return;
      recordRate(event, claim);
      const stream = streamOf(event);
      const count = (underWay.get(stream) ?? 0) + 1;
      underWay.set(stream, count);
      const since = erasOf(task.destination).slice(claim.era);
      const most = Math.max(
        ...since.map((text) => documentOf(text).concurrency?.max ?? Number.POSITIVE_INFINITY),
      );
      assertThat(name, count <= most, () => `${stream}: ${count} under way, of ${most}`);
    },
    left(event) {
      const stream = streamOf(event);
      underWay.set(stream, (underWay.get(stream) ?? 0) - 1);
    },
    finished() {
      for (const [stream, { rate, at }] of taken) {
        const early = firstEarly(
          rate,
          at.toSorted((a, b) => a - b),
        );
        assertThat(name, early === undefined, () => `${stream}: ahead of its rate at ${early}`);
      }
    },
  };
}

/** The first instant that is earlier than the rate limit, a leaky bucket, allows. */
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
