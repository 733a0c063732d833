/** Task facts: the fields of a task as a list. */
import type { ComponentChildren } from "preact";
import { When } from "../parts/times.tsx";
import { visibleText } from "../parts/visible-text.ts";
import { Link } from "../routing/link.tsx";
import type { TaskView } from "../service/client.ts";
import { attemptsText } from "../tasks/task-table.tsx";

export function TaskFacts({ task }: { readonly task: TaskView }) {
  const { taskId, method, targetUrl, destination, policyId, policyVersion } = task;
  const { idempotencyKey, labels, callbackUrl, createdAt, deadlineAt, nextAttemptAt } = task;
  return (
    <dl class="facts">
      <Fact name="Task">
        <code>{taskId}</code>
      </Fact>
      <Fact name="Request">
        {method} <bdi>{visibleText(targetUrl)}</bdi>
      </Fact>
      <Fact name="Destination">
        <Link page="destination" query={{ name: destination }}>
          {destination}
        </Link>
      </Fact>
      <Fact name="Policy">
        <Link page="policies" query={{ id: policyId, version: String(policyVersion) }}>
          {policyId}
        </Link>
        , version {policyVersion}
      </Fact>
      <Fact name="Attempts">{attemptsText(task)}</Fact>
      <Fact name="Idempotency key">{idempotencyKey ?? "none"}</Fact>
      <Fact name="Created">
        <When at={createdAt} />
      </Fact>
      {nextAttemptAt !== null && (
        <Fact name="Next attempt">
          <When at={nextAttemptAt} />
        </Fact>
      )}
      {deadlineAt !== null && (
        <Fact name="Deadline">
          <When at={deadlineAt} />
        </Fact>
      )}
      {callbackUrl !== null && (
        <Fact name="Callback">
          <bdi>{visibleText(callbackUrl)}</bdi>
        </Fact>
      )}
      {Object.entries(labels).map(([name, value]) => (
        <Fact key={name} name={`Label ${name}`}>
          <Link page="tasks" query={{ label: `${name}=${value}` }}>
            {visibleText(value)}
          </Link>
        </Fact>
      ))}
      <Relatives task={task} />
    </dl>
  );
}

function Relatives({ task: { redrivenFrom, redrivenTo } }: { readonly task: TaskView }) {
  const links = [
    ["Redriven from", redrivenFrom],
    ["Redriven as", redrivenTo],
  ] as const;
  return (
    <>
      {links.map(
        ([name, taskId]) =>
          taskId !== null && (
            <Fact key={name} name={name}>
              <Link page="task" query={{ id: taskId }}>
                {taskId}
              </Link>
            </Fact>
          ),
      )}
    </>
  );
}

export function Fact({
  name,
  children,
}: {
  readonly name: string;
  readonly children: ComponentChildren;
}) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
