/** `redrive dlq redrive`: creates new tasks from dead letters at a limited rate, with progress. */
import { formatCount, systemClock } from "@redrive/core";
import { type Client, REDRIVE_BOUNDS } from "@redrive/service/client";
import { type Command, Option } from "commander";
import { confirmChange } from "../../input/confirm.ts";
import { addExamples, integerFlag, numberFlag } from "../../input/flags.ts";
import { FAILED, OK, PARTIAL, type Presentation } from "../../print/presentation.ts";
import { createProgress } from "../../print/progress.ts";
import type { Terminal } from "../../print/terminal.ts";
import { addServiceFlags, type ClientFlags, callService } from "../service-client.ts";
import { addFilterFlags, type FilterFlags, taskFilter } from "../task-filter.ts";
import { fullTaskId } from "../task-id.ts";

interface RedriveFlags extends ClientFlags, FilterFlags {
  readonly rate: number;
  readonly canary: number;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

type RedriveView = Awaited<ReturnType<Client["getRedrive"]>>;

export function addRedrive(parent: Command, terminal: Terminal): void {
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
