/**
 * Held destinations: nothing is claimed while the destination's row is paused, gated or open. For a
 * half-open destination, only the node that announced the probe in the row claims, and at most as
 * many at once as the document says (default: one).
 */
import { documentOf } from "../documents.ts";
import { assertThat, type Checker, type Committed } from "../history.ts";

/** Instead of a probing node: the breaker was turned off meanwhile, so any node may start again. */
const ANYBODY = "anybody";

/**
 * `shortOpen`: documents make open spans so short that one is over before a commit gets through; a
 * torn one may then bring the announcement of a probe without its claim, as if it were an opening.
 */
export function heldDestinations(shortOpen: boolean): Checker {
  const name = "breaker open means no traffic";
  /** Who may probe an open destination before its time is up: the node whose probe it waits for. */
  const announcers = new Map<string, string>();
  const isAnnouncer = (destination: string, nodeId: string) =>
    [nodeId, ANYBODY].includes(announcers.get(destination) ?? "");

  /**
   * Who opens a breaker claims nothing, and counts it as one opening more; a write that comes with a
   * claim announces a probe, and so does one of the same opening, whose claim a torn commit has lost.
   */
  function recordWrites(event: Committed): void {
    const { batch, result, rowsBefore, at } = event;
    for (const [index, { row }] of batch.destinations.entries()) {
      if (result.destinations[index] !== null) continue;
      const before = rowsBefore.get(row.name);
      if (documentOf(row.document).breaker === undefined) announcers.set(row.name, ANYBODY);
      if (before?.openUntil === row.openUntil && before.breakerState === row.breakerState) continue;
      const isEarly = before?.breakerState === "OPEN" && before.openUntil > at;
      const closes = row.breakerState === "CLOSED" && isEarly;
      const mayClose = !closes || isAnnouncer(row.name, batch.nodeId);
      assertThat(name, mayClose, () => `${row.name} is closed by ${batch.nodeId}, without a probe`);
      const asks =
        batch.claims.some(({ destination }) => destination === row.name) ||
        batch.creates.some((one) => one.claimVersion !== null && one.task.destination === row.name);
      const isSameOpening = before?.breakerState === "OPEN" && row.openCount === before.openCount;
      const announces = row.breakerState === "OPEN" && (asks || isSameOpening || shortOpen);
      if (announces) announcers.set(row.name, batch.nodeId);
      else announcers.delete(row.name);
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
          isAnnouncer(destination, batch.nodeId) || (row.openUntil <= at && isWritten);
        assertThat(name, mayProbe, () => `${destination} is open, ${tasks} claimed`);
        const most = breaker.halfOpenProbes;
        assertThat(name, tasks <= most, () => `${destination}: ${tasks} probes at once`);
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
