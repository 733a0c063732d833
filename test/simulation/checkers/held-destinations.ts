/**
 * Held destinations: nothing is claimed while the destination's row says paused, gated or open; and
 * of a half-open one, no more are claimed at once than its document says (one, unless told), by the
 * node that announced it in the row.
 */
import { documentOf } from "../documents.ts";
import { assertThat, type Checker, type Committed } from "../history.ts";

/** In place of a node that probes: the breaker was turned off since, and whoever turns it on begins anew. */
const ANY_NODE = "anybody";

/**
 * `shortOpen`: documents make open spans so short that one is over before a commit gets through; a
 * torn one may then bring the announcement of a probe without its claim, as if it were an opening.
 */
export function heldDestinations(hasShortOpenTimes: boolean): Checker {
  const name = "breaker open means no traffic";
  /** Who may probe an open destination before its time is up: the node whose probe it waits for. */
  const probingNodes = new Map<string, string>();
  const mayNodeProbe = (destination: string, nodeId: string) =>
    [nodeId, ANY_NODE].includes(probingNodes.get(destination) ?? "");

  /**
   * Who opens a breaker claims nothing, and counts it as one opening more; a write that comes with a
   * claim announces a probe, and so does one of the same opening, whose claim a torn commit has lost.
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
      assertThat(name, mayClose, () => `${row.name} is closed by ${batch.nodeId}, without a probe`);
      const claims =
        batch.claims.some(({ destination }) => destination === row.name) ||
        batch.creates.some((one) => one.claimVersion !== null && one.task.destination === row.name);
      const isSameOpening = before?.breakerState === "OPEN" && row.openCount === before.openCount;
      const announcesProbe =
        row.breakerState === "OPEN" && (claims || isSameOpening || hasShortOpenTimes);
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
        const held = row.pausedAt !== null || row.gateUntil > at;
        assertThat(name, !held, () => `${destination} is paused or gated, ${tasks} claimed`);
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
