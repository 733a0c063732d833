/**
 * `redrive tasks tail`: a line whenever a task changes. It asks for the newest tasks again and again,
 * each time after the answer to the time before, so that a slow service is never asked twice at once.
 */
import { type Clock, formatCount, systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import type { Command } from "commander";
import { addExamples, spanFlag } from "../flags.ts";
import { FAILED, OK } from "../presentation.ts";
import { addRemote, clientOf, type RemoteFlags, reaching, unreachable } from "../remote.ts";
import type { Screen } from "../screen.ts";
import { addFilter, type FilterFlags, filterOf } from "../task-filter.ts";
import { lastWords, type Task, timeOfDay, whenWords } from "../task-text.ts";

export interface TailFlags extends RemoteFlags, FilterFlags {
  readonly every: number;
  readonly for?: number;
}

/** The newest tasks that are watched: the largest page there is. */
const WATCHED = 250;

/** Tasks that had ended before are shown, so that the screen is not empty. */
const SHOWN_AT_FIRST = 10;

export function addTail(parent: Command, screen: Screen): void {
  const command = parent
    .command("tail")
    .description("a line whenever a task changes, until Ctrl-C")
    .option("--every <span>", "how often to ask", spanFlag, 500)
    .option("--for <span>", "end after this much time", spanFlag);
  addFilter(command);
  addRemote(command);
  addExamples(command, "redrive tasks tail", "redrive tasks tail --since 1h --json | jq .status");
  command.action((flags: TailFlags) => {
    const stop = new AbortController();
    process.once("SIGINT", () => stop.abort()).once("SIGTERM", () => stop.abort());
    return reaching(screen, flags, () => tail(systemClock, clientOf(flags), screen, flags, stop));
  });
}

/** Ends when it is told to, or when its time is over; a service that goes away is waited for. */
export async function tail(
  clock: Clock,
  client: Client,
  screen: Screen,
  flags: TailFlags,
  { signal }: AbortController,
): Promise<void> {
  const endMs = clock.monotonicMs() + (flags.for ?? Number.POSITIVE_INFINITY);
  const look = lookFor(client, screen, flags);
  let isThere = await look();
  while (!signal.aborted && clock.monotonicMs() + flags.every <= endMs) {
    await clock.sleep(flags.every, signal).catch(() => undefined);
    isThere = signal.aborted ? isThere : await look();
  }
  screen.end(isThere ? OK : FAILED);
}

/** Prints what has changed; false if nobody answered, which at first is an error. */
function lookFor(client: Client, screen: Screen, flags: TailFlags): () => Promise<boolean> {
  const seen = new Map<string, string>();
  let isFirst = true;
  let wasThere = true;
  return async () => {
    const tasks = await newest(client, flags, isFirst);
    const isThere = tasks !== undefined;
    const found = changed(tasks ?? [], seen, isFirst);
    for (const task of found) screen.print(lineOf(task, screen, flags));
    if (isThere !== wasThere) {
      screen.note(isThere ? "it answers again\n" : `no answer from ${flags.url}: waiting for it\n`);
    }
    isFirst = false;
    wasThere = isThere;
    return isThere;
  };
}

async function newest(
  client: Client,
  flags: TailFlags,
  isFirst: boolean,
): Promise<readonly Task[] | undefined> {
  try {
    return (await client.listTasks({ ...filterOf(flags), limit: WATCHED })).tasks;
  } catch (error) {
    if (isFirst || unreachable(error) === undefined) throw error;
    return undefined;
  }
}

/** What is new since the time before, the oldest first. `seen` is brought up to date. */
export function changed(
  tasks: readonly Task[],
  seen: Map<string, string>,
  isFirst: boolean,
): readonly Task[] {
  const fresh = tasks.filter((task) => seen.get(task.taskId) !== markOf(task));
  for (const task of fresh) seen.set(task.taskId, markOf(task));
  const ended = fresh.filter(({ finishedAt }) => finishedAt !== null);
  const left = new Set(isFirst ? ended.slice(SHOWN_AT_FIRST) : []);
  return fresh.filter((task) => !left.has(task)).reverse();
}

function markOf({ status, attemptNumber, nextAttemptAt }: Task): string {
  return `${status} ${attemptNumber} ${nextAttemptAt}`;
}

function lineOf(task: Task, { paint }: Screen, { json }: TailFlags): string {
  if (json) return `${JSON.stringify(task)}\n`;
  const now = systemClock.now();
  const { taskId, status, attemptNumber, targetUrl } = task;
  const tones = { SUCCEEDED: "good", EXHAUSTED: "bad", CANCELLED: "warn" } as const;
  const tone = status in tones ? tones[status as keyof typeof tones] : "accent";
  const words = [
    timeOfDay(now),
    taskId,
    paint(tone, status.padEnd(9)),
    formatCount(attemptNumber, "attempt").padEnd(11),
    lastWords(task).padEnd(3),
    whenWords(task, now).padEnd(14),
    paint("faint", targetUrl),
  ];
  return `${words.join("  ")}\n`;
}
