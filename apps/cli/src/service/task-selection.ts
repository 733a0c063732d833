/**
 * Task selection: the flags that select tasks, shared by lists, redrives, purges and exports, and
 * short forms of task ids.
 */
import { quote, RedriveError, systemClock } from "@redrive/core";
import { type Client, fullPage } from "@redrive/service/client";
import { type Command, InvalidArgumentError } from "commander";
import { choiceFlag, durationFlag, integerFlag } from "../terminal/flags.ts";

export const STATUSES = ["PENDING", "IN_FLIGHT", "SUCCEEDED", "EXHAUSTED", "CANCELLED"] as const;

export type TaskFilter = Parameters<Client["discardDeadLetters"]>[0];

export interface FilterFlags {
  readonly policy?: string;
  readonly destination?: string;
  readonly label?: string;
  readonly key?: string;
  readonly reason?: string;
  readonly lastStatus?: number;
  readonly since?: number;
}

export function addFilterFlags(command: Command): Command {
  return command
    .option("--policy <id>", "only tasks with this policy")
    .option("--destination <name>", "only tasks to this destination")
    .option("--label <name=value>", "only tasks with this label", labelFlag)
    .option("--key <key>", "only tasks with this idempotency key")
    .option("--reason <reason>", "only tasks that ended for this reason")
    .option(
      "--last-status <status>",
      "only tasks whose last response had this status; 0 to 16 for gRPC and brokers",
      integerFlag(0, 999),
    )
    .option("--since <duration>", "only tasks created within this time, such as 2h", durationFlag);
}

export function addStatusFlag(command: Command): Command {
  const parse = (text: string) => choiceFlag(...STATUSES)(text.toUpperCase());
  return command.option(
    "--status <status>",
    `only tasks with this status: ${STATUSES.join(", ")}`,
    parse,
  );
}

export function taskFilter(flags: FilterFlags): TaskFilter {
  const { policy, destination, label, key, reason, lastStatus, since } = flags;
  return {
    ...(policy !== undefined && { policyId: policy }),
    ...(destination !== undefined && { destination }),
    ...(label !== undefined && { label }),
    ...(key !== undefined && { idempotencyKey: key }),
    ...(reason !== undefined && { reason }),
    ...(lastStatus !== undefined && { lastStatus }),
    ...(since !== undefined && { createdFrom: systemClock.now() - since }),
  };
}

function labelFlag(text: string): string {
  if (/^[\w.:/-]{1,64}=/u.test(text)) return text;
  throw new InvalidArgumentError("Must be name=value.");
}

// Task id: short forms of task ids. A list shows the shortest prefixes that differ, and every
// command takes a prefix that only one task has. The first 12 digits of an id are its time
// (UUIDv7), so a prefix selects the tasks of a short period, and the service needs no index of its
// own for it.

/** Both groups of digits that contain the time: tasks of different milliseconds differ in them. */
const MIN_SHOWN = 13;

/** Fewer digits select more than a minute. */
const MIN_DIGITS = 8;

const ID_LENGTH = 36;
const TIME_DIGITS = 12;

/** The clock of a node, which makes the ids, may differ from the instant of creation by this much. */
const CLOCK_MARGIN_MS = 60_000;

/** Returns the prefix of each id that no other id in the list has. */
export function shortIds(ids: readonly string[]): readonly string[] {
  return ids.map((id) => {
    let length = MIN_SHOWN;
    const isShared = () =>
      ids.some((other) => other !== id && other.startsWith(id.slice(0, length)));
    while (length < ID_LENGTH && isShared()) length += 1;
    return id.slice(0, length);
  });
}

/** Like `fullTaskId`. Without a text, returns the id of the newest task. */
export async function taskIdOrNewest(client: Client, text: string | undefined): Promise<string> {
  if (text !== undefined) return await fullTaskId(client, text);
  const { tasks } = await fullPage(client.listTasks, { limit: 1 });
  const [newest] = tasks;
  if (newest === undefined) {
    throw new RedriveError("INVALID_ARGUMENT", "there are no tasks; create one with redrive send");
  }
  return newest.taskId;
}

/** Returns the full id of the only task whose id starts with `text`. */
export async function fullTaskId(client: Client, text: string): Promise<string> {
  const digits = text.replaceAll("-", "").toLowerCase();
  if (text.length >= ID_LENGTH || !/^[\da-f]+$/u.test(digits)) return text;
  if (digits.length < MIN_DIGITS) {
    throw new RedriveError(
      "INVALID_ARGUMENT",
      `a short task id must have at least ${MIN_DIGITS} digits, got ${quote(text)}`,
    );
  }
  const found = await tasksWithPrefix(client, digits);
  if (found.length === 1) return found[0] ?? text;
  const problem =
    found.length === 0
      ? `there is no task whose id starts with ${quote(text)}`
      : `${quote(text)} is the start of several task ids: ${found.slice(0, 5).join(", ")}`;
  throw new RedriveError("INVALID_ARGUMENT", problem);
}

async function tasksWithPrefix(client: Client, digits: string): Promise<readonly string[]> {
  const time = digits.slice(0, TIME_DIGITS);
  const createdFrom = Number.parseInt(time.padEnd(TIME_DIGITS, "0"), 16) - CLOCK_MARGIN_MS;
  const createdTo = Number.parseInt(time.padEnd(TIME_DIGITS, "f"), 16) + CLOCK_MARGIN_MS;
  const found: string[] = [];
  let cursor: string | null | undefined;
  while (cursor !== null && found.length < 2) {
    const query = { createdFrom, createdTo, limit: 250, ...(cursor && { cursor }) };
    const page = await fullPage(client.listTasks, query);
    const ids = page.tasks.map(({ taskId }) => taskId);
    found.push(...ids.filter((id) => id.replaceAll("-", "").startsWith(digits)));
    cursor = page.cursor;
  }
  return found;
}
