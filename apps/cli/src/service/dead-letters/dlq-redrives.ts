/** `redrive dlq redrives|pause|resume|cancel`: lists and controls the redrives of a running service. */
import { systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import type { Command } from "commander";
import { addExamples } from "../../input/flags.ts";
import type { Presentation } from "../../print/presentation.ts";
import { formatAgo } from "../../print/relative-time.ts";
import { table } from "../../print/table.ts";
import type { Terminal } from "../../print/terminal.ts";
import { addServiceFlags, type ClientFlags, callService } from "../service-client.ts";

type RedriveView = Awaited<ReturnType<Client["getRedrive"]>>;

const ID = "01a1e209-0998-7000-9546-44a78747a6b7";

const CHANGES = [
  ["pause", "Pause a redrive until it is resumed.", "pauseRedrive"],
  ["resume", "Resume a paused redrive, including one that paused itself.", "resumeRedrive"],
  ["cancel", "Cancel a redrive. Tasks that it already created remain.", "cancelRedrive"],
] as const;

export function addRedrives(parent: Command, terminal: Terminal): void {
  const list = parent.command("redrives").description("List redrives with their progress.");
  addServiceFlags(list);
  addExamples(list, "redrive dlq redrives");
  list.action((flags: ClientFlags) =>
    callService(terminal, flags, async (client) => presentAll(await client.listRedrives())),
  );
  for (const [verb, description, call] of CHANGES) {
    const command = parent.command(`${verb} <redriveId>`).description(description);
    addServiceFlags(command);
    addExamples(command, `redrive dlq ${verb} ${ID}`);
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
