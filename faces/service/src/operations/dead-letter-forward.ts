/**
 * Dead letter forward: the task that posts a dead letter to the `deadLetterUrl` of its destination, with
 * the request that could not be delivered. Headers that may hold secrets are left out.
 */
import type { Headers, NewTask } from "../model/task.ts";
import { isHarmlessHeader } from "../model/task-headers.ts";
import { type End, endReport, internalTask, summaryOf } from "./internal-task.ts";

export function deadLetterForwardOf(
  task: NewTask,
  end: End,
  deadLetterUrl: string,
  taskId: string,
): NewTask {
  const body = {
    type: "task.dead-letter",
    ...summaryOf(task, end),
    request: {
      method: task.method,
      targetUrl: task.targetUrl,
      headers: harmless(task.headers),
      bodyBase64: task.body === null ? null : Buffer.from(task.body).toString("base64"),
      bodyRef: task.bodyRef,
    },
  };
  return internalTask(endReport("dead-letter", task, end, { url: deadLetterUrl, body }), taskId);
}

function harmless(headers: Headers): Headers {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => isHarmlessHeader(name)));
}
