/**
 * `redrive dlq`: lists dead letters, redrives them as new tasks, or deletes them. A command that
 * changes many dead letters counts them first and asks for confirmation.
 */
import { formatCount, formatInteger, RedriveError, systemClock } from "@redrive/core";
import { type Client, fullPage, REDRIVE_BOUNDS } from "@redrive/service/client";
import { type Command, Option } from "commander";
import { formatAgo } from "../terminal/event-text.ts";
import { addExamples, integerFlag, numberFlag } from "../terminal/flags.ts";
import { FAILED, OK, PARTIAL, type Presentation } from "../terminal/presentation.ts";
import { createProgress } from "../terminal/progress.ts";
import { table } from "../terminal/table.ts";
import { confirmChange, type Terminal } from "../terminal/terminal.ts";
import { addServiceFlags, type ClientFlags, callService } from "./service-client.ts";
import {
  addFilterFlags,
  type FilterFlags,
  fullTaskId,
  type TaskFilter,
  taskFilter,
} from "./task-selection.ts";
import { deadLetterTable } from "./task-text.ts";
import { addPagingFlags, type ListFlags, listQuery, presentTasks } from "./tasks.ts";

interface DeadFlags extends ListFlags, ClientFlags {
  readonly group?: boolean;
  readonly all?: boolean;
}

export function addDlq(parent: Command, terminal: Terminal): void {
  const dlq = parent.command("dlq").description("List, redrive and purge dead letters.");
  addList(dlq, terminal);
  addRedrive(dlq, terminal);
  addRedrives(dlq, terminal);
  addPurge(dlq, terminal);
}

function addList(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("ls")
    .description("List dead letters that were not redriven, newest first.");
  addPagingFlags(addFilterFlags(command));
  command.option("--group", "count dead letters by destination and reason");
  command.option("--all", "also list dead letters that were redriven");
  addServiceFlags(command);
  addExamples(command, "redrive dlq ls --group", "redrive dlq ls --last-status 503 --since 2h");
  command.action((flags: DeadFlags) =>
    callService(terminal, flags, async (client) => {
      const shown = flags.all ? {} : { redriven: false };
      if (flags.group) {
        return presentGroups(await client.groupDeadLetters({ ...taskFilter(flags), ...shown }));
      }
      const query = { ...listQuery(flags), ...shown };
      return presentTasks(await fullPage(client.listDeadLetters, query), deadLetterTable);
    }),
  );
}

function presentGroups(list: Awaited<ReturnType<Client["groupDeadLetters"]>>): Presentation {
  const { groups, complete } = list;
  const now = systemClock.now();
  const rows = groups.map(({ destination, reason, count, lastFinishedAt }) => [
    formatInteger(count),
    destination,
    reason ?? "",
    formatAgo(lastFinishedAt, now),
  ]);
  const columns = [
    { head: "count", align: "right" },
    { head: "destination", cuts: true },
    { head: "reason" },
    { head: "newest" },
  ] as const;
  return {
    json: list,
    text: (style) =>
      rows.length === 0 ? ["There are no dead letters."] : table(columns, rows, style),
    ...(!complete && { notes: ["there are more dead letters than were counted"] }),
  };
}

// `redrive dlq redrive`: creates new tasks from dead letters at a limited rate, with progress.

interface RedriveFlags extends ClientFlags, FilterFlags {
  readonly rate: number;
  readonly canary: number;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

type RedriveView = Awaited<ReturnType<Client["getRedrive"]>>;

function addRedrive(parent: Command, terminal: Terminal): void {
  const { ratePerSecond: rate, canary } = REDRIVE_BOUNDS;
  const rateFlag = numberFlag(rate.minimum, rate.maximum);
  const canaryFlag = integerFlag(canary.minimum, canary.maximum);
  const command = parent
    .command("redrive [taskId...]")
    .description("Redrive dead letters as new tasks: the given ones, or all that match the filter.")
    .option(
      "--rate <perSecond>",
      "maximum number of dead letters per second",
      rateFlag,
      rate.default,
    )
    .option(
      "--canary <count>",
      "send this many first; continue if they succeed",
      canaryFlag,
      canary.default,
    )
    .option("--dry-run", "only count; redrive nothing")
    .option("-y, --yes", "do not ask for confirmation");
  addFilterFlags(command);
  addServiceFlags(command);
  addExamples(
    command,
    "redrive dlq redrive --dry-run",
    "redrive dlq redrive --destination https://example.com --rate 5 --canary 5",
    "redrive dlq redrive 01a1e1b6-b1b2-7000-83d9-6258b3c1903d --yes",
  );
  command.addOption(new Option("--no-wait", "start the redrive and exit; do not wait for its end"));
  command.action((taskIds: readonly string[], flags: RedriveFlags & { readonly wait: boolean }) =>
    callService(terminal, flags, (client) => redrive(terminal, client, taskIds, flags)),
  );
}

async function redrive(
  terminal: Terminal,
  client: Client,
  taskIds: readonly string[],
  flags: RedriveFlags & { readonly wait: boolean },
): Promise<Presentation> {
  const ids = await Promise.all(taskIds.map((taskId) => fullTaskId(client, taskId)));
  const what = ids.length > 0 ? { taskIds: ids } : { filter: taskFilter(flags) };
  const counting = await client.startRedrive({ ...what, dryRun: true });
  const { total: count } = counting;
  const { dryRun, yes, rate: ratePerSecond, canary } = flags;
  if (dryRun || count === 0) return present(counting);
  const isConfirmed = await confirmChange(terminal, {
    verb: "redrive",
    noun: "dead letter",
    count,
    yes,
  });
  if (!isConfirmed)
    return { json: counting, text: () => ["Nothing was redriven."], exitCode: FAILED };
  const started = await client.startRedrive({ ...what, ratePerSecond, canary });
  return present(flags.wait ? await waitForEnd(terminal, client, started) : started);
}

const POLL_INTERVAL_MS = 200;

/** Polls until the redrive ends. If the command is interrupted, the service continues the redrive. */
async function waitForEnd(
  terminal: Terminal,
  client: Client,
  started: RedriveView,
): Promise<RedriveView> {
  const progress = createProgress(terminal.printError, {
    width: terminal.width,
    isShown: terminal.showsProgress,
  });
  const startMs = systemClock.monotonicMs();
  let view = started;
  while (view.status === "RUNNING") {
    await systemClock.sleep(POLL_INTERVAL_MS);
    view = await client.getRedrive(view.redriveId);
    const { redriven, skipped, total, waitsFor } = view;
    const elapsedMs = systemClock.monotonicMs() - startMs;
    const what = waitsFor === null ? "redriving" : `waits for ${waitsFor}`;
    progress.draw({ done: redriven + skipped, total, what, elapsedMs });
  }
  progress.clear();
  return view;
}

const EXIT_CODES = { RUNNING: OK, DONE: OK, PAUSED: PARTIAL, CANCELLED: PARTIAL, FAILED } as const;

function present(view: RedriveView): Presentation {
  const left = view.skips.filter(({ reason }) => reason !== "redriven");
  const exitCode = view.status === "DONE" && left.length > 0 ? PARTIAL : EXIT_CODES[view.status];
  return { json: view, text: () => [statusText(view), ...left.map(skippedText)], exitCode };
}

/** Lists dead letters that could not be redriven; they remain dead letters. */
function skippedText({ count, detail, taskIds }: RedriveView["skips"][number]): string {
  const more = count > taskIds.length ? `, and ${count - taskIds.length} more` : "";
  return `${formatCount(count, "dead letter")} skipped (${detail}): ${taskIds.join(", ")}${more}`;
}

function statusText({ status, dryRun, total, redriven, skips, error, redriveId }: RedriveView) {
  if (total === 0) return "There are no dead letters to redrive.";
  if (dryRun) return `${formatCount(total, "dead letter")} would be redriven.`;
  if (status === "RUNNING")
    return `${formatCount(total, "dead letter")} are being redriven (${redriveId}).`;
  const count = skips.find(({ reason }) => reason === "redriven")?.count ?? 0;
  const others = count === 0 ? "" : `, ${count} already redriven by someone else`;
  const done = `${redriven} of ${formatCount(total, "dead letter")} redriven${others}`;
  if (status === "PAUSED") {
    return `${done}, then paused${error ? `: ${error}` : ""}. Continue with \`redrive dlq resume ${redriveId}\`.`;
  }
  return status === "DONE" ? `${done}.` : `${done}, then ${status}${error ? `: ${error}` : ""}.`;
}

// `redrive dlq redrives|pause|resume|cancel`: lists and controls the redrives of a running service.

const EXAMPLE_ID = "01a1e209-0998-7000-9546-44a78747a6b7";

const CHANGES = [
  ["pause", "Pause a redrive until it is resumed.", "pauseRedrive"],
  ["resume", "Resume a paused redrive, including one that paused itself.", "resumeRedrive"],
  ["cancel", "Cancel a redrive. Tasks that it already created remain.", "cancelRedrive"],
] as const;

function addRedrives(parent: Command, terminal: Terminal): void {
  const list = parent.command("redrives").description("List redrives with their progress.");
  addServiceFlags(list);
  addExamples(list, "redrive dlq redrives");
  list.action((flags: ClientFlags) =>
    callService(terminal, flags, async (client) => presentAll(await client.listRedrives())),
  );
  for (const [verb, description, call] of CHANGES) {
    const command = parent.command(`${verb} <redriveId>`).description(description);
    addServiceFlags(command);
    addExamples(command, `redrive dlq ${verb} ${EXAMPLE_ID}`);
    command.action((redriveId: string, flags: ClientFlags) =>
      callService(terminal, flags, async (client) => presentOne(await client[call](redriveId))),
    );
  }
}

const COLUMNS = [
  { head: "redrive" },
  { head: "status" },
  { head: "redriven", align: "right" },
  { head: "skipped", align: "right" },
  { head: "total", align: "right" },
  { head: "started" },
  { head: "why", wraps: true },
] as const;

function presentAll(list: Awaited<ReturnType<Client["listRedrives"]>>): Presentation {
  const now = systemClock.now();
  const rows = list.redrives.map((view) => {
    const { redriveId, status, redriven, skipped, total, createdAt } = view;
    const counts = [redriven, skipped, total].map(String);
    return [redriveId, status, ...counts, formatAgo(createdAt, now), reasonText(view)];
  });
  return {
    json: list,
    text: (style) => (rows.length === 0 ? ["There are no redrives."] : table(COLUMNS, rows, style)),
  };
}

function presentOne(view: RedriveView): Presentation {
  const { redriveId, status, redriven, skipped, total } = view;
  const others = skipped === 0 ? "" : `, ${skipped} skipped`;
  return {
    json: view,
    text: () => [`${redriveId} is ${status}, ${redriven} of ${total} redriven${others}.`],
  };
}

/** Why the redrive stopped or skipped dead letters. */
function reasonText({ error, skips }: RedriveView): string {
  const details = skips.map(({ count, detail }) => `${count} skipped: ${detail}`);
  return [...(error === null ? [] : [error]), ...details].join("; ");
}

// `redrive dlq purge`: deletes dead letters after the user has confirmed how many.

interface PurgeFlags extends ClientFlags, FilterFlags {
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

function addPurge(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("purge")
    .description("Delete dead letters permanently.")
    .option("--all", "delete all dead letters")
    .option("--dry-run", "only count; delete nothing")
    .option("-y, --yes", "do not ask for confirmation");
  addFilterFlags(command);
  addServiceFlags(command);
  addExamples(
    command,
    "redrive dlq purge --destination https://example.com --dry-run",
    "redrive dlq purge --all --yes",
  );
  command.action((flags: PurgeFlags) =>
    callService(terminal, flags, (client) => purge(terminal, client, flags)),
  );
}

async function purge(terminal: Terminal, client: Client, flags: PurgeFlags): Promise<Presentation> {
  const filter = purgeFilter(flags);
  const { groups, complete } = await client.groupDeadLetters(filter);
  const count = groups.reduce((sum, group) => sum + group.count, 0);
  const atLeast = complete ? "" : "at least ";
  if (flags.dryRun || count === 0) {
    const text = `${atLeast}${formatCount(count, "dead letter")} would be discarded.`;
    return { json: { discarded: 0, found: count, complete }, text: () => [text] };
  }
  const { yes } = flags;
  const isConfirmed = await confirmChange(terminal, {
    verb: "discard",
    noun: "dead letter",
    count,
    yes,
  });
  if (!isConfirmed) {
    return { json: { discarded: 0 }, text: () => ["Nothing was discarded."], exitCode: FAILED };
  }
  const result = await client.discardDeadLetters(filter);
  return {
    json: result,
    text: () => [`${formatCount(result.discarded, "dead letter")} discarded.`],
  };
}

/** The service requires at least one field; `--all` becomes a filter that matches everything. */
function purgeFilter(flags: PurgeFlags): TaskFilter {
  const filter = taskFilter(flags);
  if (Object.keys(filter).length > 0) return filter;
  if (flags.all) return { createdFrom: 0 };
  const message = "select dead letters with --destination, --reason, --since ..., or use --all";
  throw new RedriveError("INVALID_ARGUMENT", message);
}
