/**
 * Tenant turns: checks that tenants take turns in the commits of a node that knows all tasks. While a
 * lane of a tenant is due and not claimed, no other tenant has two turns more than this one. So a
 * backlog delays a due task of another tenant by at most one round.
 */
import { assertThat, type Checker, type Committed } from "../history.ts";

interface Waiting {
  readonly tenantId: string;
  readonly destination: string;
  readonly dueAt: number;
}

/** `watched`: the tenant whose tasks no guard holds. */
export function tenantTurns(watched: string): Checker {
  const name = "tenants take turns";
  /** First attempts of the watched tenant that its node knows, by task. */
  const waiting = new Map<string, Waiting>();

  /** The lanes of the batch, by tenant. Suspects have turns of their own. */
  function turnsOf({ batch }: Committed): Map<string, Set<string>> {
    const turns = new Map<string, Set<string>>();
    for (const { tenantId, destination, lane } of batch.claims) {
      if (lane === "suspect") continue;
      const own = turns.get(tenantId) ?? new Set();
      turns.set(tenantId, own.add(`${destination}/${lane}`));
    }
    return turns;
  }

  function check(event: Committed): void {
    const turns = turnsOf(event);
    const own = turns.get(watched) ?? new Set();
    const late = [...waiting].find(
      ([, { destination, dueAt }]) => dueAt <= event.batch.now && !own.has(`${destination}/first`),
    );
    if (late === undefined) return;
    for (const [tenantId, { size }] of turns) {
      const isFair = size <= own.size + 1;
      assertThat(name, isFair, () => `${tenantId} had ${size} turns while ${late[0]} was due`);
    }
  }

  return {
    name,
    createAcknowledged(_id, task, _key, result) {
      if (task === undefined || task.tenantId !== watched || result.kind !== "created") return;
      const { taskId, tenantId, destination, scheduledAt: dueAt, status } = task;
      if (status === "PENDING") waiting.set(taskId, { tenantId, destination, dueAt });
    },
    committed(event) {
      if (waiting.size > 0) check(event);
      // A task that was claimed once may wait for its retry, which guards may hold.
      for (const { tasks } of event.result.claims) {
        for (const { taskId } of tasks) waiting.delete(taskId);
      }
    },
  };
}
