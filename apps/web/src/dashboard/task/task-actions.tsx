/** Task actions: retry now, cancel, redrive, copy as curl. Each affects only the task on the page. */
import { ActionButton } from "../parts/action-button.tsx";
import { CopyButton } from "../parts/copy-button.tsx";
import { goTo } from "../routing/route.ts";
import { client, type TaskView } from "../service/client.ts";
import { may } from "../service/session.ts";
import { curlCommand } from "./curl.ts";

interface TaskActionsProps {
  readonly task: TaskView;
  onDone(): void;
}

export function TaskActions({ task, onDone }: TaskActionsProps) {
  const { taskId, status, redrivenTo } = task;
  const isOpen = status === "PENDING" || status === "IN_FLIGHT";
  return (
    <>
      {status === "PENDING" && may("tasks:cancel") && (
        <ActionButton
          label="Retry now"
          isAccent
          clickKey="r"
          act={() => client.retryNow(taskId)}
          onDone={onDone}
        />
      )}
      {isOpen && may("tasks:cancel") && (
        <ActionButton
          label="Cancel"
          question="Cancel this task? It cannot be resumed."
          act={() => client.cancelTask(taskId)}
          onDone={onDone}
        />
      )}
      {status === "EXHAUSTED" && redrivenTo === null && may("dlq:redrive") && (
        <ActionButton
          label="Redrive"
          isAccent
          question="Send this dead letter again, as a new task?"
          act={async () => {
            const { redriveId } = await client.startRedrive({ taskIds: [taskId] });
            goTo("redrives", { id: redriveId });
          }}
        />
      )}
      {task.targetUrl.startsWith("http") && (
        <CopyButton text={curlCommand(task)} label="Copy as curl" />
      )}
    </>
  );
}
