/**
 * `redrive dlq`: lists dead letters, redrives them as new tasks, or deletes them. A command that
 * changes many dead letters counts them first and asks for confirmation.
 */
import { formatInteger, systemClock } from "@redrive/core";
import { type Client, fullPage } from "@redrive/service/client";
import type { Command } from "commander";
import { addExamples } from "../../input/flags.ts";
import type { Presentation } from "../../print/presentation.ts";
import { formatAgo } from "../../print/relative-time.ts";
import { table } from "../../print/table.ts";
import type { Terminal } from "../../print/terminal.ts";
import { addServiceFlags, type ClientFlags, callService } from "../service-client.ts";
import { addFilterFlags, taskFilter } from "../task-filter.ts";
import { deadLetterTable } from "../task-text.ts";
import { addPagingFlags, type ListFlags, listQuery, presentTasks } from "../tasks.ts";
import { addPurge } from "./dlq-purge.ts";
import { addRedrive } from "./dlq-redrive.ts";
import { addRedrives } from "./dlq-redrives.ts";

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
