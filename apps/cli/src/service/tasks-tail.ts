/**
 * `redrive tasks tail`: a line whenever a task changes. It asks for the newest tasks again and again,
 * each time after the answer to the time before, so that a slow service is never asked twice at once.
 */
import { type Clock, systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { counted } from "@redrive/simulator/words";
import type { Command } from "commander";
import { addExamples, durationFlag } from "../input/flags.ts";
import { FAILED, OK } from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import {
  addServiceFlags,
  type ClientFlags,
  connectionError,
  createServiceClient,
  withErrorReport,
} from "./service-client.ts";
import { addFilterFlags, type FilterFlags, taskFilter } from "./task-filter.ts";
import { formatTimeOfDay, lastResultText, type Task, timingText } from "./task-text.ts";

export interface TailFlags extends ClientFlags, FilterFlags {
  readonly every: number;
  readonly for?: number;
}

/** The newest tasks that are watched: the largest page there is. */
const MAX_WATCHED = 250;

/** Tasks that had ended before are shown, so that the screen is not empty. */
const MAX_ENDED_AT_START = 10;

export function addTail(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("tail")
    .description("a line whenever a task changes, until Ctrl-C")
    .option("--every <span>", "how often to ask", durationFlag, 500)
    .option("--for <span>", "end after this much time", durationFlag);
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

/** Ends when it is told to, or when its time is over; a service that goes away is waited for. */
export async function tail(
  clock: Clock,
  client: Client,
  terminal: Terminal,
  flags: TailFlags,
  { signal }: AbortController,
): Promise<void> {
  const endMs = clock.monotonicMs() + (flags.for ?? Number.POSITIVE_INFINITY);
  const style = createPoll(client, terminal, flags);
  let isThere = await style();
  while (!signal.aborted && clock.monotonicMs() + flags.every <= endMs) {
    await clock.sleep(flags.every, signal).catch(() => undefined);
    isThere = signal.aborted ? isThere : await style();
  }
  terminal.setExitCode(isThere ? OK : FAILED);
}

/** Prints what has changed; false if nobody answered, which at first is an error. */
function createPoll(client: Client, terminal: Terminal, flags: TailFlags): () => Promise<boolean> {
  const seen = new Map<string, string>();
  let isFirst = true;
  let wasThere = true;
  return async () => {
    const tasks = await fetchNewest(client, flags, isFirst);
    const isThere = tasks !== undefined;
    const found = changedTasks(tasks ?? [], seen, isFirst);
    for (const task of found) terminal.print(tailLine(task, terminal, flags));
    if (isThere !== wasThere) {
      terminal.printError(
        isThere ? "it answers again\n" : `no answer from ${flags.url}: waiting for it\n`,
      );
    }
    isFirst = false;
    wasThere = isThere;
    return isThere;
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
    if (isFirst || connectionError(error) === undefined) throw error;
    return undefined;
  }
}

/** What is new since the time before, the oldest first. `seen` is brought up to date. */
export function changedTasks(
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
  const words = [
    formatTimeOfDay(now),
    taskId,
    paint(tone, status.padEnd(9)),
    counted(attemptNumber, "attempt").padEnd(11),
    lastResultText(task).padEnd(3),
    timingText(task, now).padEnd(14),
    paint("faint", targetUrl),
  ];
  return `${words.join("  ")}\n`;
}
