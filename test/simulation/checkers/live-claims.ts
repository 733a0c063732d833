/**
 * Live claims: checks that a task has at most one live claim at any instant, that epochs strictly
 * increase, and that a write with an older epoch changes nothing.
 */
import type { StartedTask } from "../../../faces/service/src/model/batch.ts";
import { assertThat, type Checker } from "../history.ts";

export function liveClaims(): Checker {
  const name = "no two live claims";
  const live = new Map<string, number>();
  const latest = new Map<string, number>();

  function started({ taskId, claimEpoch }: StartedTask): void {
    const other = live.get(taskId);
    assertThat(name, other === undefined, () => `${taskId} has claims ${claimEpoch} and ${other}`);
    const last = latest.get(taskId) ?? 0;
    assertThat(name, claimEpoch > last, () => `${taskId}: epoch ${claimEpoch} after ${last}`);
    live.set(taskId, claimEpoch);
    latest.set(taskId, claimEpoch);
  }

  return {
    name,
    committed({ batch, result }) {
      for (const create of result.creates) {
        if (create.kind === "created" && create.started) started(create.started);
      }
      for (const [index, settle] of batch.settles.entries()) {
        if (result.settles[index] === "fenced") continue;
        const epoch = live.get(settle.taskId);
        const isOwn = epoch === settle.claimEpoch;
        assertThat(
          name,
          isOwn,
          () => `${settle.taskId}: epoch ${settle.claimEpoch} settled ${epoch}`,
        );
        live.delete(settle.taskId);
      }
      for (const claim of result.claims) claim.tasks.forEach(started);
    },
  };
}
