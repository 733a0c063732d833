/** Task table: one row per task, as cards on a phone. */
import { formatInteger, statusText } from "@redrive/core";
import { Status } from "../parts/status.tsx";
import { When } from "../parts/times.tsx";
import { Link } from "../routing/link.tsx";
import type { TaskView } from "../service/client.ts";
import { maxAttemptsOf } from "./max-attempts.ts";

export function TaskTable({ tasks }: { readonly tasks: readonly TaskView[] }) {
  return (
    <div class="table-wrap">
      <table class="table rows">
        <caption class="visually-hidden">Tasks, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Task</th>
            <th scope="col">Destination</th>
            <th scope="col">Status</th>
            <th scope="col">Attempts</th>
            <th scope="col">Last response</th>
            <th scope="col">Next attempt</th>
            <th scope="col">Created</th>
          </tr>
        </thead>
        <tbody>
          {tasks.map((task) => (
            <TaskRow key={task.taskId} task={task} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function TaskRow({ task }: { readonly task: TaskView }) {
  const { taskId, destination, status, reason, createdAt } = task;
  return (
    <tr>
      <th scope="row" data-label="Task">
        <Link page="task" query={{ id: taskId }} class="id" title={taskId}>
          {taskId}
        </Link>
      </th>
      <td data-label="Destination" class="wrap">
        <Link page="destination" query={{ name: destination }}>
          <bdi>{destination}</bdi>
        </Link>
      </td>
      <td data-label="Status">
        <span>
          <Status status={status} />
          {reason !== null && status === "EXHAUSTED" && <span class="faint"> {reason}</span>}
        </span>
      </td>
      <td data-label="Attempts">{attemptsText(task)}</td>
      <td data-label="Last response">{lastResponse(task)}</td>
      <td data-label="Next attempt">
        <NextAttempt task={task} />
      </td>
      <td data-label="Created">
        <When at={createdAt} />
      </td>
    </tr>
  );
}

export function attemptsText(task: TaskView): string {
  const max = maxAttemptsOf(task);
  const count = formatInteger(task.attemptNumber);
  return max === undefined ? count : `${count} of ${formatInteger(max)}`;
}

function lastResponse({ lastStatus, lastError }: TaskView): string {
  if (lastStatus !== null) return statusText(lastStatus);
  return lastError === null ? "none" : "error";
}

function NextAttempt({ task: { status, nextAttemptAt, finishedAt } }: { readonly task: TaskView }) {
  if (finishedAt !== null) {
    return (
      <span class="faint">
        ended <When at={finishedAt} />
      </span>
    );
  }
  if (status === "IN_FLIGHT") return <>running</>;
  return nextAttemptAt === null ? <>none</> : <When at={nextAttemptAt} />;
}
