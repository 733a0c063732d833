/**
 * Task page: one task, why it is not running now, its attempts, when the next ones start, and what can
 * be done with it.
 */
import {
  compiledPolicyOf,
  formatCount,
  formatDuration,
  formatInteger,
  type Policy,
  statusText,
} from "@redrive/core";
import type { ComponentChildren } from "preact";
import { Chart, linearScale, timeAxis } from "../components/chart.tsx";
import { Card, Notice } from "../components/frames.tsx";
import { AttemptStrip } from "./attempt-strip.tsx";
import { type AttemptView, client, may, now, type TaskView } from "./parts/client.ts";
import { ActionButton, CopyButton } from "./parts/form.tsx";
import { goTo, Link, route } from "./parts/link.tsx";
import { usePolled } from "./parts/live.ts";
import { PageFrame } from "./parts/page-frame.tsx";
import { curveAddress, SimulatorLink } from "./parts/simulator-links.tsx";
import { causeLabel, Status } from "./parts/status.tsx";
import { attemptsText, loadPolicies, policyOf } from "./parts/task-table.tsx";
import { formatInstant, roundDuration, tick, When } from "./parts/times.tsx";
import { visibleText } from "./parts/visible-text.ts";

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

interface TaskActionsProps {
  readonly task: TaskView;
  onDone(): void;
}

/** Retry now, cancel, redrive, copy as curl. Each affects only the task on the page. */
function TaskActions({ task, onDone }: TaskActionsProps) {
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

// Task facts: the fields of a task as a list.

function TaskFacts({ task }: { readonly task: TaskView }) {
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

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

// Attempt list: each attempt with its times, its response and what it waited for before.

function AttemptList({ attempts }: { readonly attempts: readonly AttemptView[] }) {
  if (attempts.length === 0) return <p class="faint">No attempt has ended yet.</p>;
  return (
    <ol class="attempts" reversed>
      {attempts.toReversed().map((attempt, index) => (
        <li key={`${attempt.attemptNumber} ${attempt.startedAt}`}>
          <details open={index === 0}>
            <Summary attempt={attempt} />
            <AttemptDetails attempt={attempt} />
          </details>
        </li>
      ))}
    </ol>
  );
}

function Summary({ attempt }: { readonly attempt: AttemptView }) {
  const { attemptNumber, responseStatus, errorClass, outcome, durationMs, startedAt } = attempt;
  const result = responseStatus === null ? (errorClass ?? outcome) : statusText(responseStatus);
  return (
    <summary>
      <strong>Attempt {formatInteger(attemptNumber)}</strong>{" "}
      <span class={outcome === "success" ? "status good" : "status bad"}>{result}</span> after{" "}
      {formatDuration(durationMs)}, <When at={startedAt} />
    </summary>
  );
}

function AttemptDetails({ attempt }: { readonly attempt: AttemptView }) {
  const { errorMessage, responseHeaders, responseBody, responseBodyBase64, waits } = attempt;
  const { phases, nextDelayMs, delaySource } = attempt;
  const times =
    phases === null
      ? []
      : ([
          ["DNS", phases.dnsMs],
          ["connect", phases.connectMs],
          ["TLS", phases.tlsMs],
          ["first byte", phases.firstByteMs],
        ] as const);
  const known = times.filter(([, ms]) => ms !== null);
  return (
    <div class="attempt-details">
      {errorMessage !== null && <p class="problem">{visibleText(errorMessage)}</p>}
      {waits.length > 0 && (
        <p>
          Waited before:{" "}
          {waitSums(waits)
            .map(([cause, ms]) => `${roundDuration(ms)} (${causeLabel(cause)})`)
            .join(", ")}
          .
        </p>
      )}
      {known.length > 0 && (
        <p>
          Times:{" "}
          {known.map(([name, ms]) => `${name} ${formatDuration(Math.round(ms ?? 0))}`).join(", ")}.
        </p>
      )}
      {nextDelayMs !== null && (
        <p>
          Next delay: {formatDuration(nextDelayMs)} ({causeLabel(delaySource ?? "policy")}).
        </p>
      )}
      {responseHeaders !== null && (
        <HeaderTable headers={responseHeaders} title="Response headers" />
      )}
      <BodyText title="Response body" text={responseBody} base64={responseBodyBase64} />
    </div>
  );
}

/** Guards often take turns, so each cause is named once, in the order of its first wait. */
function waitSums(waits: AttemptView["waits"]): readonly (readonly [string, number])[] {
  const sums = new Map<string, number>();
  for (const { cause, durationMs } of waits) sums.set(cause, (sums.get(cause) ?? 0) + durationMs);
  return [...sums];
}

interface HeaderTableProps {
  readonly headers: Readonly<Record<string, string>>;
  readonly title: string;
}

function HeaderTable({ headers, title }: HeaderTableProps) {
  const entries = Object.entries(headers);
  if (entries.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <dl class="facts">
        {entries.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{visibleText(value)}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

interface BodyTextProps {
  readonly title: string;
  readonly text: string | undefined;
  readonly base64: string | undefined;
}

/** Raw text: parsing and printing JSON would change large numbers. */
function BodyText({ title, text, base64 }: BodyTextProps) {
  const shown = text ?? base64;
  if (shown === undefined || shown === "") return null;
  const bytes =
    text === undefined ? Math.floor((shown.length * 3) / 4) : new TextEncoder().encode(text).length;
  return (
    <>
      <h3>
        {title}{" "}
        <small class="faint">
          {formatInteger(bytes)} bytes{text === undefined ? ", in Base64" : ""}
        </small>
      </h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reachable by key. */}
      <pre class="raw" tabIndex={0}>
        {visibleText(shown)}
      </pre>
    </>
  );
}

// Future chart: when the next attempts start if each one fails, one row per attempt.

const FUTURE_ROW = 22;
const FUTURE_BOTTOM = 22;
const FUTURE_LEFT = 84;
/** Space for the text beside a range. */
const FUTURE_RIGHT = 150;
const FUTURE_TICK_SPACE = 90;
const FUTURE_BAR = 10;

function FutureChart({ future }: { readonly future: Future }) {
  const now = tick.value;
  const { attempts, giveUpAt, more } = future;
  const lastAt = attempts.at(-1)?.latestAt ?? now;
  const height = attempts.length * FUTURE_ROW + FUTURE_BOTTOM;
  return (
    <div class="future">
      <h3>Next attempts, if each one fails</h3>
      <p class="faint">{futureSentence(future, now)}</p>
      {attempts.length > 0 && (
        <Chart
          title="Next attempts, if each one fails"
          description={attempts
            .map((one) => `Attempt ${one.attempt} ${rangeText(one, now)}.`)
            .join(" ")}
          height={height}
        >
          {(width) => {
            const axis = timeAxis(Math.max(1000, lastAt - now));
            const x = linearScale(
              [0, axis.endMs],
              [FUTURE_LEFT, Math.max(FUTURE_LEFT + 40, width - FUTURE_RIGHT)],
            );
            const ticks = axis.ticks(
              Math.max(2, Math.floor((width - FUTURE_LEFT - FUTURE_RIGHT) / FUTURE_TICK_SPACE)),
            );
            return (
              <>
                {ticks.map((ms) => (
                  <g key={ms}>
                    <line class="rule" x1={x(ms)} x2={x(ms)} y1="0" y2={height - FUTURE_BOTTOM} />
                    <text class="tick middle" x={x(ms)} y={height - 6}>
                      {axis.format(ms)}
                    </text>
                  </g>
                ))}
                {attempts.map((one, row) => (
                  <Row key={one.attempt} one={one} y={row * FUTURE_ROW} x={x} now={now} />
                ))}
              </>
            );
          }}
        </Chart>
      )}
      {more > 0 && (
        <p class="faint">
          and {formatCount(more, "more attempt")}, until {formatInstant(giveUpAt)} at the latest
        </p>
      )}
    </div>
  );
}

interface RowProps {
  readonly one: FutureAttempt;
  readonly y: number;
  readonly x: (ms: number) => number;
  readonly now: number;
}

function Row({ one, y, x, now }: RowProps) {
  const [from, to] = [x(Math.max(0, one.earliestAt - now)), x(Math.max(0, one.latestAt - now))];
  const isExact = one.earliestAt === one.latestAt;
  return (
    <g>
      <title>
        {`Attempt ${one.attempt}: ${formatInstant(one.earliestAt)}${isExact ? "" : ` to ${formatInstant(one.latestAt)}`}`}
      </title>
      <text class="tick" x="0" y={y + 15}>
        attempt {formatInteger(one.attempt)}
      </text>
      <rect
        class={isExact ? "due-exact" : "due-range"}
        x={from}
        width={Math.max(3, to - from)}
        y={y + (FUTURE_ROW - FUTURE_BAR) / 2}
        height={FUTURE_BAR}
        rx="2"
      />
      <text class="tick" x={to + 8} y={y + 15}>
        {rangeText(one, now)}
      </text>
    </g>
  );
}

/** "in 12 s to 40 s". */
function rangeText({ earliestAt, latestAt }: FutureAttempt, now: number): string {
  const from = roundDuration(Math.max(0, earliestAt - now));
  const to = roundDuration(Math.max(0, latestAt - now));
  if (latestAt <= now) return "due";
  return from === to ? `in ${to}` : `in ${from} to ${to}`;
}

function futureSentence({ attempts, giveUpAt, more }: Future, now: number): string {
  const left = attempts.length + more;
  if (left === 0) return "None is left: its total time is over before the next one could start.";
  const over = giveUpAt > now ? `in ${roundDuration(giveUpAt - now)}` : "now";
  return `${formatCount(left, "attempt")} left. Its total time ends ${over} (${formatInstant(giveUpAt)}). A range is the jitter; the time of the attempts themselves comes on top.`;
}

// Future: when the next attempts of a task start if each one fails, as ranges: the jitter of each
// wait is drawn only when the attempt before has failed.

interface FutureAttempt {
  readonly attempt: number;
  readonly earliestAt: number;
  readonly latestAt: number;
}

interface Future {
  /** The next attempt first. Its instant is known. None are left if the time is over by then. */
  readonly attempts: readonly FutureAttempt[];
  /** No attempt starts later: the end of the total time, or the deadline. */
  readonly giveUpAt: number;
  /** Attempts that the list leaves out, at its end. */
  readonly more: number;
}

/** Rows of the list. A policy allows a thousand attempts. */
const MAX_ATTEMPTS = 12;
const LAST_DRAW = 1 - 2 ** -53;

type Waiting = Pick<
  TaskView,
  | "status"
  | "attemptNumber"
  | "nextAttemptAt"
  | "createdAt"
  | "scheduledAt"
  | "deadlineAt"
  | "lastDelayMs"
  | "wait"
>;

/**
 * Undefined if the task has ended, or its next attempt is running: then its wait is not drawn yet. An
 * attempt that a guard holds starts when the hold ends, as far as that is known.
 */
export function futureOf(task: Waiting, policy: Policy, now: number): Future | undefined {
  const { status, attemptNumber, deadlineAt, createdAt, scheduledAt, wait } = task;
  if (status !== "PENDING" || task.nextAttemptAt === null) return undefined;
  const nextAttemptAt = Math.max(task.nextAttemptAt, now, wait?.untilAt ?? 0);
  const startAt = Math.max(createdAt, scheduledAt);
  const giveUpAt = Math.min(startAt + policy.totalBudgetMs, deadlineAt ?? Number.POSITIVE_INFINITY);
  const next = { attempt: attemptNumber + 1, earliestAt: nextAttemptAt, latestAt: nextAttemptAt };
  const all = [...rangesFrom(next, task.lastDelayMs, policy, giveUpAt)];
  return {
    attempts: all.slice(0, MAX_ATTEMPTS),
    giveUpAt,
    more: Math.max(0, all.length - MAX_ATTEMPTS),
  };
}

function* rangesFrom(
  next: FutureAttempt,
  lastDelayMs: number,
  policy: Policy,
  giveUpAt: number,
): Generator<FutureAttempt> {
  const compiled = compiledPolicyOf(policy);
  let [low, high] = [lastDelayMs, lastDelayMs];
  let { earliestAt, latestAt } = next;
  for (let { attempt } = next; earliestAt <= giveUpAt; attempt++) {
    yield { attempt, earliestAt, latestAt: Math.min(latestAt, giveUpAt) };
    if (attempt >= policy.maxAttempts) return;
    // Decorrelated jitter depends on the wait before, so the range widens with both ends.
    low = compiled.delayMs(attempt, low, 0);
    high = compiled.delayMs(attempt, high, LAST_DRAW);
    earliestAt += low;
    latestAt += high;
  }
}

type Request = Pick<
  TaskView,
  "method" | "targetUrl" | "headers" | "body" | "bodyBase64" | "bodyRef"
>;

/**
 * The request of a task as a command that a shell passes on unchanged. Masked header values stay
 * masked: the page does not know them. A body in the blob store is read from the file `body`, which the
 * user downloads.
 */
export function curlCommand(request: Request): string {
  const { method, targetUrl, headers, body, bodyBase64, bodyRef } = request;
  // A command line cannot contain a NUL character.
  const isText = body !== undefined && !body.includes("\0");
  const parts = [
    // Without globbing, curl does not expand [1-9] and {a,b} in the URL.
    `curl --globoff ${method === "HEAD" ? "--head" : `--request ${method}`}`,
    ...Object.entries(headers).map(([name, value]) => `--header ${quoted(`${name}: ${value}`)}`),
  ];
  if (bodyRef !== null) parts.push("--data-binary @body");
  if (isText) parts.push(`--data-raw ${quoted(body)}`);
  const encoded = isText ? undefined : (bodyBase64 ?? encodedText(body));
  if (encoded !== undefined) parts.push("--data-binary @-");
  const command = [...parts, quoted(targetUrl)].join(" \\\n  ");
  return encoded === undefined ? command : `echo ${quoted(encoded)} | base64 -d | ${command}`;
}

function encodedText(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  return btoa(String.fromCodePoint(...new TextEncoder().encode(text)));
}

/** In single quotes a shell changes nothing; a single quote itself ends them. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
