/**
 * `redrive tasks tail`: prints the newest tasks, and then a line whenever a task changes. It
 * follows the events of the service. If the service has none, or the filter needs the task itself,
 * it polls the newest tasks, one poll after the other.
 */
import { type Clock, formatCount, RedriveError, systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { type Command, Option } from "commander";
import {
  currentWaitText,
  eventLine,
  formatTimeOfDay,
  type TaskEvent,
} from "../terminal/event-text.ts";
import { addExamples, durationFlag } from "../terminal/flags.ts";
import { FAILED, OK } from "../terminal/presentation.ts";
import type { Terminal } from "../terminal/terminal.ts";
import {
  addServiceFlags,
  type ClientFlags,
  createServiceClient,
  isTemporary,
  withErrorReport,
} from "./service-client.ts";
import { addFilterFlags, type FilterFlags, taskFilter } from "./task-selection.ts";
import { lastResultText, type Task, timingText } from "./task-text.ts";

export interface TailFlags extends ClientFlags, FilterFlags {
  readonly every: number;
  readonly for?: number;
}

/** How many of the newest tasks are watched: the maximum page size. */
const MAX_WATCHED = 250;

/** How many ended tasks are shown at the start, so that the output is not empty. */
const MAX_ENDED_AT_START = 10;

export function addTail(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("tail")
    .description("Print a line whenever a task changes, until Ctrl-C.")
    .addOption(
      new Option("--every <duration>", "polling interval, if there are no events")
        .argParser(durationFlag)
        .default(500, "500ms"),
    )
    .option("--for <duration>", "stop after this time", durationFlag);
  addFilterFlags(command);
  addServiceFlags(command);
  addExamples(command, "redrive tasks tail", "redrive tasks tail --since 1h --json | jq .status");
  command.action((flags: TailFlags) => {
    const stop = new AbortController();
    process.once("SIGINT", () => stop.abort()).once("SIGTERM", () => stop.abort());
    return withErrorReport(terminal, flags, () =>
      tail(systemClock, createServiceClient(flags), terminal, flags, stop),
    );
  });
}

/** Ends on abort or when its time is over. If the service goes away, waits until it returns. */
export async function tail(
  clock: Clock,
  client: Client,
  terminal: Terminal,
  flags: TailFlags,
  { signal }: AbortController,
): Promise<void> {
  const poll = createPoll(client, terminal, flags);
  let isUp = await poll();
  const time = new AbortController();
  const cancel = flags.for === undefined ? () => {} : clock.alarm(flags.for, () => time.abort());
  const ended = AbortSignal.any([signal, time.signal]);
  const followed = needsTasks(flags)
    ? undefined
    : await followEvents(followOptions(clock, client, terminal, flags, ended, poll));
  isUp = followed ?? isUp;
  while (!ended.aborted) {
    await clock.sleep(flags.every, ended).catch(() => undefined);
    isUp = ended.aborted ? isUp : await poll();
  }
  cancel();
  terminal.setExitCode(isUp ? OK : FAILED);
}

/** Events do not have these fields of a task. */
function needsTasks({ policy, key, reason, lastStatus }: TailFlags): boolean {
  return [policy, key, reason, lastStatus].some((flag) => flag !== undefined);
}

function followOptions(
  clock: Clock,
  client: Client,
  terminal: Terminal,
  flags: TailFlags,
  signal: AbortSignal,
  onGap: () => Promise<unknown>,
): FollowOptions {
  const { url, json = false, destination, label, since, every } = flags;
  return {
    clock,
    client,
    terminal,
    url,
    json,
    signal,
    onGap,
    everyMs: every,
    ...(destination !== undefined && { destination }),
    ...(label !== undefined && { label }),
    ...(since !== undefined && { createdFrom: clock.now() - since }),
  };
}

/** Each call prints the changed tasks and returns whether the service responded. The first call throws if not. */
function createPoll(client: Client, terminal: Terminal, flags: TailFlags): () => Promise<boolean> {
  const seen = new Map<string, string>();
  let isFirst = true;
  let wasUp = true;
  return async () => {
    const tasks = await fetchNewest(client, flags, isFirst);
    const isUp = tasks !== undefined;
    const found = changedTasks(tasks ?? [], seen, isFirst);
    for (const task of found) terminal.print(tailLine(task, terminal, flags));
    if (isUp !== wasUp) {
      terminal.printError(
        isUp ? "the service responds again\n" : `no response from ${flags.url}: waiting\n`,
      );
    }
    isFirst = false;
    wasUp = isUp;
    return isUp;
  };
}

async function fetchNewest(
  client: Client,
  flags: TailFlags,
  isFirst: boolean,
): Promise<readonly Task[] | undefined> {
  try {
    return (await client.listTasks({ ...taskFilter(flags), limit: MAX_WATCHED })).tasks;
  } catch (error) {
    if (isFirst || !isTemporary(error)) throw error;
    return undefined;
  }
}

/** Returns the tasks that changed since the last poll, oldest first, and updates `seen`. */
function changedTasks(
  tasks: readonly Task[],
  seen: Map<string, string>,
  isFirst: boolean,
): readonly Task[] {
  const fresh = tasks.filter((task) => seen.get(task.taskId) !== changeKey(task));
  for (const task of fresh) seen.set(task.taskId, changeKey(task));
  const ended = fresh.filter(({ finishedAt }) => finishedAt !== null);
  const left = new Set(isFirst ? ended.slice(MAX_ENDED_AT_START) : []);
  return fresh.filter((task) => !left.has(task)).reverse();
}

function changeKey({ status, attemptNumber, nextAttemptAt }: Task): string {
  return `${status} ${attemptNumber} ${nextAttemptAt}`;
}

function tailLine(task: Task, { paint }: Terminal, { json }: TailFlags): string {
  if (json) return `${JSON.stringify(task)}\n`;
  const now = systemClock.now();
  const { taskId, status, attemptNumber, targetUrl } = task;
  const tones = { SUCCEEDED: "good", EXHAUSTED: "bad", CANCELLED: "warn" } as const;
  const tone = status in tones ? tones[status as keyof typeof tones] : "accent";
  const cells = [
    formatTimeOfDay(now),
    taskId,
    paint(tone, status.padEnd(9)),
    formatCount(attemptNumber, "attempt").padEnd(11),
    lastResultText(task).padEnd(3),
    timingText(task, now).padEnd(14),
    paint("faint", targetUrl),
  ];
  return `${cells.join("  ")}\n`;
}

// Tail events: prints the events of tasks as they happen. It reconnects where it stopped, and looks
// up what holds a task that is due and does not start, so that a held task is not silent.

interface FollowOptions {
  readonly clock: Clock;
  readonly client: Client;
  readonly terminal: Terminal;
  readonly url: string;
  readonly json: boolean;
  readonly destination?: string;
  readonly label?: string;
  /** Only tasks that were created since then; epoch ms. */
  readonly createdFrom?: number;
  /** How long to wait before a new connection, and between two looks at waiting tasks. */
  readonly everyMs: number;
  readonly signal: AbortSignal;
  /** The tasks may have changed without an event: at the start, and after events were lost. */
  readonly onGap: () => Promise<unknown>;
}

/** Looked up at once; the others follow. */
const MAX_LOOKUPS = 10;

/**
 * Returns when the signal is aborted. True if the service responded last; undefined if it is an older
 * version without events.
 */
async function followEvents(options: FollowOptions): Promise<boolean | undefined> {
  const { clock, signal, everyMs, terminal, url } = options;
  const waiting = new WaitingTasks();
  const position: Position = { lastEventId: undefined };
  const watching = watchHeld(options, waiting);
  let isUp = true;
  while (!signal.aborted) {
    const result = await readOnce(options, waiting, position, () => {
      if (!isUp) terminal.printError("the service responds again\n");
      isUp = true;
    });
    if (result === "unsupported") return undefined;
    if (signal.aborted) break;
    if (isUp && result === "down") {
      terminal.printError(`no response from ${url}: waiting\n`);
      isUp = false;
    }
    await clock.sleep(everyMs, signal).catch(() => undefined);
  }
  await watching;
  return isUp;
}

interface Position {
  lastEventId: string | undefined;
}

/** Reads until the connection ends. */
async function readOnce(
  options: FollowOptions,
  waiting: WaitingTasks,
  position: Position,
  onUp: () => void,
): Promise<"closed" | "down" | "unsupported"> {
  const { client, signal } = options;
  try {
    for await (const one of client.events({ ...queryOf(options, position), signal })) {
      onUp();
      const isGap = one.kind === "reset" || position.lastEventId === undefined;
      position.lastEventId = one.id;
      if (isGap) await options.onGap();
      if (one.kind === "event") handle(options, waiting, one.event);
    }
    return "closed";
  } catch (error) {
    if (error instanceof RedriveError && error.code === "NOT_FOUND") return "unsupported";
    // A connection that breaks is a TypeError without a reason.
    if (error instanceof TypeError || isTemporary(error)) return "down";
    throw error;
  }
}

function queryOf({ destination, label }: FollowOptions, { lastEventId }: Position) {
  return {
    type: "task,attempt",
    ...(destination !== undefined && { destination }),
    ...(label !== undefined && { label }),
    ...(lastEventId !== undefined && { lastEventId }),
  };
}

function handle(options: FollowOptions, waiting: WaitingTasks, event: TaskEvent): void {
  const { clock, createdFrom = 0, json, terminal } = options;
  const { taskId = "" } = event;
  if (createdAtOf(taskId) < createdFrom) return;
  waiting.record(event, clock.monotonicMs());
  if (json) {
    terminal.print(`${JSON.stringify(event)}\n`);
    return;
  }
  const line = eventLine(event, terminal);
  if (line !== undefined) terminal.print(line);
}

/** A task id begins with its instant. */
function createdAtOf(taskId: string): number {
  return Number.parseInt(taskId.replace("-", "").slice(0, 12), 16);
}

/** Prints what holds the tasks that are due and do not start. */
async function watchHeld(options: FollowOptions, waiting: WaitingTasks): Promise<void> {
  const { clock, signal, everyMs } = options;
  while (!signal.aborted) {
    await clock.sleep(everyMs, signal).catch(() => undefined);
    if (signal.aborted) return;
    for (const taskId of waiting.overdue(clock.monotonicMs(), MAX_LOOKUPS)) {
      await printHeld(options, waiting, taskId);
    }
  }
}

async function printHeld(
  { client, clock, terminal, json }: FollowOptions,
  waiting: WaitingTasks,
  taskId: string,
): Promise<void> {
  // A task that cannot be read now is looked up again later.
  const task = await client.getTask(taskId, { include: ["explain"] }).catch(() => undefined);
  if (task?.wait === undefined || task.wait === null || !waiting.has(taskId)) return;
  const now = clock.now();
  if (json) {
    terminal.print(`${JSON.stringify({ type: "task.waits", at: now, taskId, wait: task.wait })}\n`);
    return;
  }
  const text = currentWaitText(task.wait, task.destination, now);
  terminal.print(`${formatTimeOfDay(now)}  ${taskId}  ${terminal.paint("warn", text)}\n`);
}

// Waiting tasks: which of the followed tasks wait, and which of them are due and do not start.

/** Of more tasks, the oldest ones are not looked up. */
const MAX_TASKS = 250;

/** A task that starts within this time is not held. */
const PATIENCE_MS = 1000;

/** A task that is still held is looked up again after this time. */
const REPEAT_MS = 10_000;

export class WaitingTasks {
  /** When to look each task up, by its id; monotonic ms. */
  readonly #lookAtMs = new Map<string, number>();

  /** The instants of the service are compared with each other only, because its clock may differ. */
  record({ type, taskId, at, nextAttemptAt }: TaskEvent, nowMs: number): void {
    if (taskId === undefined) return;
    this.#lookAtMs.delete(taskId);
    const waits =
      type === "task.created" || type === "attempt.failed" || type === "attempt.abandoned";
    if (!waits) return;
    const dueMs = nowMs + Math.max(0, (nextAttemptAt ?? at) - at);
    this.#lookAtMs.set(taskId, dueMs + PATIENCE_MS);
    if (this.#lookAtMs.size <= MAX_TASKS) return;
    const [oldest = ""] = this.#lookAtMs.keys();
    this.#lookAtMs.delete(oldest);
  }

  has(taskId: string): boolean {
    return this.#lookAtMs.has(taskId);
  }

  /** The tasks to look up now, at most `max`. Each is returned again later if it still waits. */
  overdue(nowMs: number, max: number): readonly string[] {
    const found: string[] = [];
    for (const [taskId, atMs] of this.#lookAtMs) {
      if (found.length === max) break;
      if (atMs > nowMs) continue;
      found.push(taskId);
      this.#lookAtMs.set(taskId, nowMs + REPEAT_MS);
    }
    return found;
  }
}
