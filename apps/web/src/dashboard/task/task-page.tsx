/** Task page: one task, why it is not running now, its attempts, and what can be done with it. */
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { Status } from "../parts/status.tsx";
import { tick } from "../parts/times.tsx";
import { visibleText } from "../parts/visible-text.ts";
import { Link } from "../routing/link.tsx";
import { route } from "../routing/route.ts";
import { type AttemptView, client, now, type TaskView } from "../service/client.ts";
import { may } from "../service/session.ts";
import { usePolled } from "../service/use-polled.ts";
import { curveAddress, SimulatorLink } from "../simulator/links.tsx";
import { loadPolicies, policyOf } from "../tasks/task-policies.ts";
import { AttemptList, BodyText, HeaderTable } from "./attempt-list.tsx";
import { AttemptStrip } from "./attempt-strip.tsx";
import { futureOf } from "./future.ts";
import { FutureChart } from "./future-chart.tsx";
import { TaskActions } from "./task-actions.tsx";
import { TaskFacts } from "./task-facts.tsx";
import "./task.css";

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
  loadPolicies([task]);
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
      title={taskId}
      parent={<Link page="tasks">Tasks</Link>}
      problem={problem}
      isLoaded={data !== undefined}
      actions={
        data !== undefined && (
          <>
            <TaskActions task={data.task} onDone={reload} />
            <Simulate {...data} />
          </>
        )
      }
    >
      {data !== undefined && <Loaded {...data} />}
    </PageFrame>
  );
}

/** With the policy of the task, and the time for which it has failed so far. */
function Simulate({ task, attempts }: LoadedTask) {
  const known = policyOf(task);
  if (known === undefined) return null;
  const { startedAt } = attempts[0] ?? { startedAt: task.createdAt };
  const failedMs = task.status === "SUCCEEDED" ? undefined : (task.finishedAt ?? now()) - startedAt;
  return <SimulatorLink address={curveAddress(known.document, failedMs)} />;
}

function Loaded({ task, attempts }: LoadedTask) {
  const { explain, lastError, status } = task;
  const known = policyOf(task);
  const future = known && futureOf(task, known.policy, tick.value);
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
        {future !== undefined && <FutureChart future={future} />}
      </Card>
      <Card title="Attempts">
        <AttemptList attempts={attempts} />
      </Card>
      <Card title="Request">
        <div class="columns">
          <TaskFacts task={task} />
          <div>
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
          </div>
        </div>
      </Card>
    </>
  );
}
