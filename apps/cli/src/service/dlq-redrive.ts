/** `redrive dlq redrive`: dead letters once more, as new tasks, paced, with progress. */
import { systemClock } from "@redrive/core";
import { type Client, REDRIVE_BOUNDS } from "@redrive/service/client";
import { counted } from "@redrive/simulator/words";
import { type Command, Option } from "commander";
import { confirmChange } from "../input/confirm.ts";
import { addExamples, integerFlag, numberFlag } from "../input/flags.ts";
import { FAILED, OK, PARTIAL, type Presentation } from "../print/presentation.ts";
import { createProgress } from "../print/progress.ts";
import type { Terminal } from "../print/terminal.ts";
import { addServiceFlags, type ClientFlags, callService } from "./service-client.ts";
import { addFilterFlags, type FilterFlags, taskFilter } from "./task-filter.ts";

interface RedriveFlags extends ClientFlags, FilterFlags {
  readonly rate: number;
  readonly canary: number;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

type RedriveView = Awaited<ReturnType<Client["getRedrive"]>>;

export function addRedrive(parent: Command, terminal: Terminal): void {
  const { ratePerSecond: rate, canary } = REDRIVE_BOUNDS;
  const inRate = numberFlag(rate.minimum, rate.maximum);
  const inCanary = integerFlag(canary.minimum, canary.maximum);
  const command = parent
    .command("redrive [taskId...]")
    .description("make new tasks of dead letters: those that are named, or all that match")
    .option("--rate <perSecond>", "so many a second", inRate, rate.default)
    .option(
      "--canary <count>",
      "so many first; the rest if those go well",
      inCanary,
      canary.default,
    )
    .option("--dry-run", "only count")
    .option("-y, --yes", "do not ask");
  addFilterFlags(command);
  addServiceFlags(command);
  addExamples(
    command,
    "redrive dlq redrive --dry-run",
    "redrive dlq redrive --destination https://example.com --rate 5 --canary 5",
    "redrive dlq redrive 01a1e1b6-b1b2-7000-83d9-6258b3c1903d --yes",
  );
  command.addOption(new Option("--no-wait", "begin, and do not wait for the end"));
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
  const what = taskIds.length > 0 ? { taskIds: [...taskIds] } : { filter: taskFilter(flags) };
  const counting = await client.startRedrive({ ...what, dryRun: true });
  const { total: count } = counting;
  const { dryRun, yes, rate: ratePerSecond, canary } = flags;
  if (dryRun || count === 0) return present(counting);
  const isMeant = await confirmChange(terminal, {
    verb: "redrive",
    noun: "dead letter",
    count,
    yes,
  });
  if (!isMeant) return { json: counting, text: () => ["Nothing was redriven."], exitCode: FAILED };
  const started = await client.startRedrive({ ...what, ratePerSecond, canary });
  return present(flags.wait ? await waitForEnd(terminal, client, started) : started);
}

const POLL_INTERVAL_MS = 200;

/** The service goes on by itself if this is interrupted. */
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
    const { redriven, skipped, total } = view;
    const elapsedMs = systemClock.monotonicMs() - startMs;
    progress.draw({ done: redriven + skipped, total, what: "redriving", elapsedMs });
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

/** Dead letters that it could not redrive: they are that still. */
function skippedText({ count, detail, taskIds }: RedriveView["skips"][number]): string {
  const more = count > taskIds.length ? `, and ${count - taskIds.length} more` : "";
  return `${counted(count, "dead letter")} skipped (${detail}): ${taskIds.join(", ")}${more}`;
}

function statusText({ status, dryRun, total, redriven, skips, error, redriveId }: RedriveView) {
  if (total === 0) return "There are no dead letters to redrive.";
  if (dryRun) return `${counted(total, "dead letter")} would be redriven.`;
  if (status === "RUNNING")
    return `${counted(total, "dead letter")} being redriven (${redriveId}).`;
  const count = skips.find(({ reason }) => reason === "redriven")?.count ?? 0;
  const others = count === 0 ? "" : `, ${count} had been redriven by somebody else`;
  const done = `${redriven} of ${counted(total, "dead letter")} redriven${others}`;
  if (status === "PAUSED") {
    return `${done}; then it paused${error ? `: ${error}` : ""}. Go on with \`redrive dlq resume ${redriveId}\`.`;
  }
  return status === "DONE"
    ? `${done}.`
    : `${done}; then it was ${status}${error ? `: ${error}` : ""}.`;
}
