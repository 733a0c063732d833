/**
 * Held destinations: nothing is claimed while the destination's row says paused, gated or open; and
 * of a half-open one, a single probe at a time is claimed, by the node that announced it in the row.
 */
import { assertThat, type Checker, type Committed } from "../history.ts";

export function heldDestinations(): Checker {
  const name = "breaker open means no traffic";
  /** Who may probe an open destination before its time is up: the node whose probe it waits for. */
  const announcers = new Map<string, string>();

  /** Who opens a breaker claims nothing; a write that comes with a claim announces a probe. */
  function noteWrites(event: Committed): void {
    const { batch, result, rowsBefore } = event;
    for (const [index, { row }] of batch.destinations.entries()) {
      if (result.destinations[index] !== null) continue;
      const before = rowsBefore.get(row.name);
      if (before?.openUntil === row.openUntil && before.breakerState === row.breakerState) continue;
      const asks =
        batch.claims.some(({ destination }) => destination === row.name) ||
        batch.creates.some((one) => one.claimVersion !== null && one.task.destination === row.name);
      if (row.breakerState === "OPEN" && asks) announcers.set(row.name, batch.nodeId);
      else announcers.delete(row.name);
    }
  }

  return {
    name,
    committed(event) {
      const { batch, at, rowsBefore } = event;
      for (const [destination, tasks] of claimedFrom(event)) {
        const row = rowsBefore.get(destination);
        if (tasks === 0 || row === undefined) continue;
        const held = row.pausedAt !== null || row.gateUntil > at;
        assertThat(name, !held, () => `${destination} is paused or gated, ${tasks} claimed`);
        if (row.breakerState !== "OPEN") continue;
        const isAnnounced = announcers.get(destination) === batch.nodeId;
        const isWritten = batch.destinations.some((write) => write.row.name === destination);
        const mayProbe = isAnnounced || (row.openUntil <= at && isWritten);
        assertThat(name, mayProbe, () => `${destination} is open, ${tasks} claimed`);
        assertThat(name, tasks <= 1, () => `${destination}: ${tasks} probes at once`);
      }
      noteWrites(event);
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
