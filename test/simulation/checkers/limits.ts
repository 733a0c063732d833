/**
 * Limits: checks that no node exceeds the concurrency or the rate that the destination's document
 * allows. A claim is made under the current document. If the document changes between the claim and
 * the request, the request may follow either one.
 */
import type { RateOptions } from "@redrive/core";
import type { StartedTask } from "../../../faces/service/src/model/batch.ts";
import { documentOf } from "../documents.ts";
import { assertThat, type Checker, type Committed, type Sent } from "../history.ts";

interface Claim {
  /** Index of the document that was current at the time of the claim. */
  readonly documentIndex: number;
}

/** Tolerance for rounding errors. */
const ROUNDING = 1e-6;

const keyOf = ({ taskId, claimEpoch }: StartedTask) => `${taskId}/${claimEpoch}`;
const nodeAndDestination = ({ nodeId, task }: Sent) => `${nodeId}/${task.destination}`;

export function limits(): Checker {
  const name = "limits kept";
  /** The documents of each destination, oldest first. */
  const documents = new Map<string, (string | null)[]>();
  const claims = new Map<string, Claim>();
  const inFlight = new Map<string, number>();
  /** When the rate was used, by node, destination and document. */
  const rateUses = new Map<string, { readonly rate: RateOptions; readonly at: number[] }>();
  const documentsOf = (destination: string) => documents.get(destination) ?? [null];

  function recordDocuments({ batch, result }: Committed): void {
    for (const [index, { row }] of batch.destinations.entries()) {
      const before = documentsOf(row.name);
      if (result.destinations[index] !== null || before.at(-1) === row.document) continue;
      documents.set(row.name, [...before, row.document]);
    }
  }

  function recordClaim(task: StartedTask): void {
    const documentIndex = documentsOf(task.destination).length - 1;
    claims.set(keyOf(task), { documentIndex });
  }

  /** The token is taken at the instant of the request, under the document that the node has then. */
  function recordRateUse(event: Sent, { documentIndex }: Claim): void {
    const { destination } = event.task;
    if (documentsOf(destination).lastIndexOf(event.document) !== documentIndex) return;
    const rate = documentOf(documentsOf(destination)[documentIndex] ?? null).rate?.limit;
    if (rate === undefined) return;
    const key = `${nodeAndDestination(event)}/${documentIndex}`;
    const { at } = rateUses.get(key) ?? { at: [] as number[] };
    at.push(event.nodeAt);
    rateUses.set(key, { rate, at });
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
      recordRateUse(event, claim);
      const key = nodeAndDestination(event);
      const count = (inFlight.get(key) ?? 0) + 1;
      inFlight.set(key, count);
      const possible = documentsOf(task.destination).slice(claim.documentIndex);
      const max = Math.max(
        ...possible.map((text) => documentOf(text).concurrency?.max ?? Number.POSITIVE_INFINITY),
      );
      assertThat(name, count <= max, () => `${key}: ${count} in flight, ${max} allowed`);
    },
    resultReceived(event) {
      const key = nodeAndDestination(event);
      inFlight.set(key, (inFlight.get(key) ?? 0) - 1);
    },
    finished() {
      for (const [key, { rate, at }] of rateUses) {
        const early = firstEarly(
          rate,
          at.toSorted((a, b) => a - b),
        );
        assertThat(name, early === undefined, () => `${key}: faster than its rate at ${early}`);
      }
    },
  };
}

/** The first instant that is earlier than the rate, a leaky bucket, allows. */
function firstEarly({ perSecond, burst }: RateOptions, at: readonly number[]): number | undefined {
  let level = 0;
  let before = at[0] ?? 0;
  for (const instant of at) {
    level = Math.max(0, level - ((instant - before) * perSecond) / 1000);
    if (level > burst - 1 + ROUNDING) return instant;
    level++;
    before = instant;
  }
  return undefined;
}
