/** Task page: one task, why it is not running now, its attempts, and what can be done with it. */
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { Status } from "../parts/status.tsx";
import { visibleText } from "../parts/visible-text.ts";
import { route } from "../routing/route.ts";
import { type AttemptView, client, type TaskView } from "../service/client.ts";
import { may } from "../service/session.ts";
import { usePolled } from "../service/use-polled.ts";
import { loadMaxAttempts } from "../tasks/max-attempts.ts";
import { AttemptList, BodyText, HeaderTable } from "./attempt-list.tsx";
import { AttemptStrip } from "./attempt-strip.tsx";
import { TaskActions } from "./task-actions.tsx";
import { TaskFacts } from "./task-facts.tsx";

const EVERY_MS = 5000;

/** Attempts that the page reads. A policy allows 1000. */
const PAGE = 250;
const MAX_PAGES = 4;

interface LoadedTask {
  readonly task: TaskView;
  readonly attempts: readonly AttemptView[];
}

async function load(taskId: string): Promise<LoadedTask> {
  const withBody = may("payload:read");
  const include = withBody ? (["explain", "body"] as const) : (["explain"] as const);
  const [task, attempts] = await Promise.all([
    client.getTask(taskId, { include }),
    readAttempts(taskId, withBody),
  ]);
  loadMaxAttempts([task]);
  return { task, attempts };
}

async function readAttempts(taskId: string, withBody: boolean): Promise<readonly AttemptView[]> {
  const query = { limit: PAGE, ...(withBody && { include: "body" as const }) };
  let { attempts, cursor } = await client.listAttempts(taskId, query);
  for (let n = 1; n < MAX_PAGES && cursor !== null; n++) {
    const next = await client.listAttempts(taskId, { ...query, cursor });
    attempts = [...attempts, ...next.attempts];
    cursor = next.cursor;
  }
  return attempts;
}

export function TaskPage() {
  const taskId = route.value.query["id"] ?? "";
  const { data, problem, reload } = usePolled(taskId, () => load(taskId), {
    everyMs: EVERY_MS,
    isConcerned: (event) => event.taskId === taskId,
  });
  return (
    <PageFrame
      title="Task"
      problem={problem}
      isLoaded={data !== undefined}
      actions={data !== undefined && <TaskActions task={data.task} onDone={reload} />}
    >
      {data !== undefined && <Loaded {...data} />}
    </PageFrame>
  );
}

function Loaded({ task, attempts }: LoadedTask) {
  const { explain, lastError, status } = task;
  return (
    <>
      <p class="sentence">
        <Status status={status} /> {visibleText(explain ?? "")}
      </p>
      {status !== "SUCCEEDED" && lastError !== null && (
        <Notice tone="warn">Last error: {visibleText(lastError)}</Notice>
      )}
      <Card title="Requests and waits" aside="time since the task was created">
        <AttemptStrip task={task} attempts={attempts} />
      </Card>
      <Card title="Attempts">
        <AttemptList attempts={attempts} />
      </Card>
      <Card title="Request">
        <TaskFacts task={task} />
        <HeaderTable headers={task.headers} title="Headers" />
        <BodyText title="Body" text={task.body} base64={task.bodyBase64} />
        {task.bodyUrl !== undefined && (
          <p>
            {/* Saved to a file and never opened: the body may be a page with scripts. */}
            <a href={`..${task.bodyUrl}`} download="body">
              Download the body
            </a>
            , which is in the blob store.
          </p>
        )}
        {!may("payload:read") && (
          <p class="faint">Bodies need a key with the scope payload:read.</p>
        )}
      </Card>
    </>
  );
}
