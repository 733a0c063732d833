/** Load: creates tasks in all partitions for as long as a test runs, and remembers the acknowledged ones. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Create } from "../model/batch.ts";
import type { Store } from "../model/store.ts";
import { batch, create, TENANT } from "./store.testing.ts";

let lastTask = 0;

/** A new task. Each is in the partition after that of the previous one. */
export function anywhere(): Create {
  const number = ++lastTask;
  const byte = (number % 256).toString(16).padStart(2, "0");
  return create({ taskId: `01a318fc-5000-7000-80${byte}-${String(number).padStart(12, "0")}` });
}

export interface Load {
  readonly acknowledged: readonly string[];
  /** Why a commit failed most recently. Empty if none did. */
  lastError(): string;
  stop(): Promise<void>;
}

export function startLoad(store: Store): Load {
  const acknowledged: string[] = [];
  let isRunning = true;
  let lastError = "";
  const run = async () => {
    while (isRunning) {
      const creates = Array.from({ length: 5 }, anywhere);
      await store.commit(batch({ creates })).then(
        () => acknowledged.push(...creates.map(({ task }) => task.taskId)),
        (error: unknown) => {
          lastError = String(error);
          return sleep(5);
        },
      );
    }
  };
  const done = Promise.all([run(), run(), run()]);
  return {
    acknowledged,
    lastError: () => lastError,
    async stop() {
      isRunning = false;
      await done;
    },
  };
}

/** The tasks that the store does not have. */
export async function lostOf(store: Store, taskIds: readonly string[]): Promise<readonly string[]> {
  const lost: string[] = [];
  // Few at once: a store has few connections.
  for (let at = 0; at < taskIds.length; at += 50) {
    const some = taskIds.slice(at, at + 50);
    const found = await Promise.all(some.map((taskId) => store.query.get(TENANT, taskId)));
    lost.push(...some.filter((_, index) => found[index] === null));
  }
  return lost;
}
