/**
 * Held destinations: checks that nothing is claimed while the destination's row is paused, gated or
 * open, or has a document that the nodes cannot read. From a half-open destination, only the node that announced its probe in the row may claim,
 * and at most as many tasks at once as the document allows (one by default).
 */
import { documentOf, isReadable } from "../documents.ts";
import { assertThat, type Checker, type Committed } from "../history.ts";

/** Any node may probe: the breaker has been off since, and starts fresh when it is on again. */
const ANY_NODE = "anybody";

/**
 * `isSingle`: a node with its own store writes the announcement of a probe together with its claim. A
 * node of several writes it first, so the node that wrote an open row may probe.
 *
 * `hasShortOpenTimes`: documents make the open time so short that it can end before a commit
 * succeeds. A torn commit may then store the announcement of a probe without its claim, which looks
 * like an opening.
 */
export function heldDestinations(hasShortOpenTimes: boolean, isSingle: boolean): Checker {
  const name = "breaker open means no traffic";
  /** The node that may probe an open destination before `openUntil`, by destination. */
  const probingNodes = new Map<string, string>();
  const mayNodeProbe = (destination: string, nodeId: string) =>
    [nodeId, ANY_NODE].includes(probingNodes.get(destination) ?? "");

  /**
   * A node that opens a breaker claims nothing and increments the open count. A write together with
   * a claim announces a probe. A write with the same open count also announces a probe: a torn
   * commit lost its claim.
   */
  function recordWrites(event: Committed): void {
    const { batch, result, rowsBefore, at } = event;
    for (const [index, { row }] of batch.destinations.entries()) {
      if (result.destinations[index] !== null) continue;
      const before = rowsBefore.get(row.name);
      if (documentOf(row.document).breaker === undefined) probingNodes.set(row.name, ANY_NODE);
      if (before?.openUntil === row.openUntil && before.breakerState === row.breakerState) continue;
      const isEarly = before?.breakerState === "OPEN" && before.openUntil > at;
      const closes = row.breakerState === "CLOSED" && isEarly;
      const mayClose = !closes || mayNodeProbe(row.name, batch.nodeId);
      assertThat(name, mayClose, () => `${batch.nodeId} closed ${row.name} without a probe`);
      const claims =
        batch.claims.some(({ destination }) => destination === row.name) ||
        batch.creates.some((one) => one.claimVersion !== null && one.task.destination === row.name);
      const isSameOpening = before?.breakerState === "OPEN" && row.openCount === before.openCount;
      const announcesProbe =
        row.breakerState === "OPEN" && (!isSingle || claims || isSameOpening || hasShortOpenTimes);
      if (announcesProbe) probingNodes.set(row.name, batch.nodeId);
      else probingNodes.delete(row.name);
    }
  }

  return {
    name,
    committed(event) {
      const { batch, result, at, rowsBefore } = event;
      for (const [destination, tasks] of claimedFrom(event)) {
        const row = rowsBefore.get(destination);
        if (tasks === 0 || row === undefined) continue;
        const held = row.pausedAt !== null || row.gateUntil > at || !isReadable(row.document);
        assertThat(name, !held, () => `${destination} is held, ${tasks} claimed`);
        const own = batch.destinations.findIndex((write) => write.row.name === destination);
        const isWritten = own >= 0 && result.destinations[own] === null;
        const isClosed = isWritten && batch.destinations[own]?.row.breakerState === "CLOSED";
        const { breaker } = documentOf(row.document);
        if (row.breakerState !== "OPEN" || isClosed || breaker === undefined) continue;
        const mayProbe =
          mayNodeProbe(destination, batch.nodeId) || (row.openUntil <= at && isWritten);
        assertThat(name, mayProbe, () => `${destination} is open, ${tasks} claimed`);
        const maxProbes = breaker.halfOpenProbes;
        assertThat(name, tasks <= maxProbes, () => `${destination}: ${tasks} probes at once`);
      }
      recordWrites(event);
    },
  };
}

function claimedFrom({ batch, result }: Committed): ReadonlyMap<string, number> {
  const claimed = new Map<string, number>();
  const count = (key: string, by: number) => claimed.set(key, (claimed.get(key) ?? 0) + by);
  for (const [index, { destination }] of batch.claims.entries()) {
    count(destination, result.claims[index]?.tasks.length ?? 0);
  }
  for (const [index, { task }] of batch.creates.entries()) {
    const created = result.creates[index];
    if (created?.kind === "created" && created.started) count(task.destination, 1);
  }
  return claimed;
}
