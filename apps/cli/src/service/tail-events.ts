/**
 * Tail events: prints the events of tasks as they happen. It reconnects where it stopped, and looks up
 * what holds a task that is due and does not start, so that a held task is not silent.
 */
import { type Clock, RedriveError } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { eventLine, type TaskEvent } from "../print/event-text.ts";
import { formatTimeOfDay } from "../print/relative-time.ts";
import type { Terminal } from "../print/terminal.ts";
import { currentWaitText } from "../print/wait-text.ts";
import { isTemporary } from "./service-client.ts";
import { WaitingTasks } from "./waiting-tasks.ts";

export interface FollowOptions {
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
export async function followEvents(options: FollowOptions): Promise<boolean | undefined> {
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
