/**
 * Suspects: checks that a node holds at most one claim of a suspect at any instant, and that only
 * such a claim makes its task poison. So a crash never dead-letters a task that ran next to a suspect.
 */
import { assertThat, type Checker } from "../history.ts";

/** A task that was abandoned this often is a suspect. */
const SUSPECT_AFTER = 2;

export function suspects(): Checker {
  const name = "one suspect at a time";
  /** The node that claimed each suspect, by task. */
  const nodeOf = new Map<string, string>();
  /** The claimed suspect of each node. */
  const suspectOf = new Map<string, string>();
  return {
    name,
    committed({ batch, result }) {
      for (const [index, { taskId, reason }] of batch.settles.entries()) {
        if (result.settles[index] === "fenced") continue;
        const node = nodeOf.get(taskId);
        const isInnocent = reason === "poison" && node === undefined;
        assertThat(name, !isInnocent, () => `${taskId} is poison, but was not the suspect`);
        nodeOf.delete(taskId);
        if (node !== undefined) suspectOf.delete(node);
      }
      for (const { tasks } of result.claims) {
        for (const { taskId, abandonedCount } of tasks) {
          if (abandonedCount < SUSPECT_AFTER) continue;
          const other = suspectOf.get(batch.nodeId);
          const isOnly = other === undefined;
          assertThat(name, isOnly, () => `${batch.nodeId} runs ${taskId} while it runs ${other}`);
          nodeOf.set(taskId, batch.nodeId);
          suspectOf.set(batch.nodeId, taskId);
        }
      }
    },
  };
}
