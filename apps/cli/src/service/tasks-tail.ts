/**
 * `redrive tasks tail`: prints the newest tasks, and then a line whenever a task changes. It follows the
 * events of the service. If the service has none, or the filter needs the task itself, it polls the
 * newest tasks, one poll after the other.
 */
import { type Clock, formatCount, systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { type Command, Option } from "commander";
import { addExamples, durationFlag } from "../input/flags.ts";
import { FAILED, OK } from "../print/presentation.ts";
import { formatTimeOfDay } from "../print/relative-time.ts";
import type { Terminal } from "../print/terminal.ts";
import {
  addServiceFlags,
  type ClientFlags,
  createServiceClient,
  isTemporary,
  withErrorReport,
} from "./service-client.ts";
import { type FollowOptions, followEvents } from "./tail-events.ts";
import { addFilterFlags, type FilterFlags, taskFilter } from "./task-filter.ts";
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
