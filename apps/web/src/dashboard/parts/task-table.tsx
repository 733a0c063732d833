/**
 * Task table: one row per task with a box to select it, as cards on a phone, and the policy of each
 * task.
 */
import { signal } from "@preact/signals";
import {
  formatInteger,
  isObject,
  type Policy,
  type PolicyDocument,
  resolvePolicy,
  statusText,
} from "@redrive/core";
import { useEffect, useRef } from "preact/hooks";
import { client, type PolicyView, type TaskView } from "./client.ts";
import { Link } from "./link.tsx";
import { Status } from "./status.tsx";
import { type Selection, withRows } from "./task-selection.ts";
import { Due, When } from "./times.tsx";
import { visibleText } from "./visible-text.ts";

interface TaskTableProps {
  readonly tasks: readonly TaskView[];
  readonly selection: Selection;
  onSelect(selection: Selection): void;
}

export function TaskTable({ tasks, selection, onSelect }: TaskTableProps) {
  const ids = tasks.map(({ taskId }) => taskId);
  const selected = ids.filter((id) => selection.ids.has(id)).length;
  const select = (some: readonly string[], isSelected: boolean) =>
    onSelect(withRows(selection, some, isSelected));
  return (
    <div class="table-wrap">
      <table class="table rows tasks">
        <caption class="visually-hidden">Tasks, newest first</caption>
        <thead>
          <tr>
            <th scope="col" class="box">
              <PageBox
                isAll={selected === ids.length}
                isSome={selected > 0 && selected < ids.length}
                onChange={(isSelected) => select(ids, isSelected)}
              />
            </th>
            <th scope="col">Task</th>
            <th scope="col">Destination</th>
            <th scope="col" class="wide">
              Request
            </th>
            <th scope="col">Status</th>
            <th scope="col" class="number">
              Attempts
            </th>
            <th scope="col" class="number">
              Response
            </th>
            <th scope="col" class="number">
              Next attempt
            </th>
            <th scope="col" class="number">
              Created
            </th>
          </tr>
        </thead>
        <tbody>
          {tasks.map((task) => (
            <TaskRow
              key={task.taskId}
              task={task}
              isSelected={selection.ids.has(task.taskId)}
              onSelect={(isSelected) => select([task.taskId], isSelected)}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface PageBoxProps {
  readonly isAll: boolean;
  readonly isSome: boolean;
  onChange(isSelected: boolean): void;
}

function PageBox({ isAll, isSome, onChange }: PageBoxProps) {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (box.current !== null) box.current.indeterminate = isSome;
  }, [isSome]);
  return (
    <input
      ref={box}
      type="checkbox"
      aria-label="Select the page"
      checked={isAll}
      onChange={(event) => onChange(event.currentTarget.checked)}
    />
  );
}

interface TaskRowProps {
  readonly task: TaskView;
  readonly isSelected: boolean;
  onSelect(isSelected: boolean): void;
}

function TaskRow({ task, isSelected, onSelect }: TaskRowProps) {
  const { taskId, destination, status, reason, createdAt, method, targetUrl, redrivenTo } = task;
  return (
    <tr class={isSelected ? "selected" : ""}>
      <td class="box">
        <input
          type="checkbox"
          aria-label={`Select ${taskId}`}
          checked={isSelected}
          onChange={(event) => onSelect(event.currentTarget.checked)}
        />
      </td>
      <th scope="row" data-label="Task">
        <Link page="task" query={{ id: taskId }} class="id" title={taskId}>
          {taskId}
        </Link>
      </th>
      <td data-label="Destination" class="name">
        <Link page="destination" query={{ name: destination }}>
          <bdi>{destination}</bdi>
        </Link>
      </td>
      <td data-label="Request" class="wide request-cell">
        <bdi title={visibleText(targetUrl)}>
          {method} {visibleText(withoutOrigin(targetUrl))}
        </bdi>
      </td>
      <td data-label="Status">
        <span>
          <Status status={status} />
          {status === "EXHAUSTED" && reason !== null && <span class="faint"> {reason}</span>}
          {redrivenTo !== null && <span class="faint">, redriven</span>}
        </span>
      </td>
      <td data-label="Attempts" class="number">
        {attemptsText(task)}
      </td>
      <td data-label="Response" class="number">
        {lastResponse(task)}
      </td>
      <td data-label="Next attempt" class="number">
        <NextAttempt task={task} />
      </td>
      <td data-label="Created" class="number">
        <When at={createdAt} />
      </td>
    </tr>
  );
}

/** The destination is shown beside it. */
function withoutOrigin(url: string): string {
  return url.replace(/^[\w-]+:\/\/[^/]*/u, "") || "/";
}

export function attemptsText(task: TaskView): string {
  const max = policyOf(task)?.policy.maxAttempts;
  const count = formatInteger(task.attemptNumber);
  return max === undefined ? count : `${count} of ${formatInteger(max)}`;
}

function lastResponse({ lastStatus, lastError }: TaskView): string {
  if (lastStatus !== null) return statusText(lastStatus);
  return lastError === null ? "–" : "error";
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
  if (nextAttemptAt === null) return <>none</>;
  return <Due at={nextAttemptAt} />;
}

// Task policies: the policy version of each task, for "2 of 5" and for its future. A version never
// changes, so each is asked for once.

interface KnownPolicy {
  readonly document: PolicyDocument;
  readonly policy: Policy;
}

const known = signal<ReadonlyMap<string, KnownPolicy>>(new Map());
const asked = new Set<string>();

/** Requests for policies of one list. Tasks with further policies show no maximum. */
const MAX_REQUESTS = 20;

type PolicyOf = Pick<TaskView, "policyId" | "policyVersion">;

function keyOf({ policyId, policyVersion }: PolicyOf): string {
  return `${policyVersion} ${policyId}`;
}

/** Undefined until it is known. */
export function policyOf(task: PolicyOf): KnownPolicy | undefined {
  return known.value.get(keyOf(task));
}

export function loadPolicies(tasks: readonly PolicyOf[]): void {
  const missing = new Map(tasks.map((task) => [keyOf(task), task]));
  for (const key of missing.keys()) if (asked.has(key)) missing.delete(key);
  for (const task of [...missing.values()].slice(0, MAX_REQUESTS)) void load(task);
}

async function load(task: PolicyOf): Promise<void> {
  const key = keyOf(task);
  asked.add(key);
  try {
    const { policyId, policyVersion } = task;
    // Version 0 is a preset that the service uses itself.
    const options = policyVersion > 0 ? { version: policyVersion } : {};
    const found = await client.getPolicy(policyId, options);
    const readable = readPolicy(found);
    if (readable !== undefined) known.value = new Map(known.value).set(key, readable);
  } catch {
    // The number of attempts is shown without a maximum then; the next list asks again.
    asked.delete(key);
  }
}

/** Undefined if this page cannot read the document, for example because a newer version wrote it. */
function readPolicy({ document }: PolicyView): KnownPolicy | undefined {
  if (!isObject(document)) return undefined;
  try {
    return { document, policy: resolvePolicy(document) };
  } catch {
    return undefined;
  }
}
