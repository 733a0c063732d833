/** Bulk actions: what can be done with many tasks at once. */
import { client } from "../service/client.ts";
import type { BulkAction, BulkName } from "./bulk.ts";

export const bulkActions: Readonly<Record<BulkName, BulkAction>> = {
  retry: {
    name: "retry",
    label: "Retry now",
    scope: "tasks:cancel",
    statuses: ["PENDING"],
    effect: "Each waiting task is due now. Guards still apply.",
    done: "due now",
    run: (taskIds) => client.retryTasksNow(taskIds),
  },
  cancel: {
    name: "cancel",
    label: "Cancel",
    scope: "tasks:cancel",
    statuses: ["PENDING", "IN_FLIGHT"],
    effect: "They get no further attempt and cannot be resumed.",
    done: "canceled",
    run: (taskIds) => client.cancelTasks(taskIds),
  },
  discard: {
    name: "discard",
    label: "Discard",
    scope: "dlq:redrive",
    statuses: ["EXHAUSTED"],
    effect: "They are removed permanently, with their history. This cannot be undone.",
    done: "discarded",
    async run(taskIds) {
      const { discarded } = await client.discardTasks(taskIds);
      return { done: discarded, requested: 0, refused: [] };
    },
  },
};
