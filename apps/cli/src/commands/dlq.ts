/**
 * `redrive dlq`: the dead letters: tasks that were given up. They are listed, sent once more, or
 * thrown away; what changes many of them counts first and asks.
 */

import { formatInteger, systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import type { Command } from "commander";
import { addExamples } from "../flags.ts";
import type { Presentation } from "../presentation.ts";
import { addRemote, askService, type RemoteFlags } from "../remote.ts";
import type { Screen } from "../screen.ts";
import { addFilter, filterOf } from "../task-filter.ts";
import { agoWords } from "../task-text.ts";
import { table } from "../terminal/table.ts";
import { addPurge } from "./dlq-purge.ts";
import { addRedrive } from "./dlq-redrive.ts";
import { addRedrives } from "./dlq-redrives.ts";
import { addPage, type ListFlags, presentList, queryOf } from "./tasks.ts";

interface DeadFlags extends ListFlags, RemoteFlags {
  readonly group?: boolean;
}

export function addDlq(parent: Command, screen: Screen): void {
  const dlq = parent.command("dlq").description("list, redrive, purge dead letters");
  addList(dlq, screen);
  addRedrive(dlq, screen);
  addRedrives(dlq, screen);
  addPurge(dlq, screen);
}

function addList(parent: Command, screen: Screen): void {
  const command = parent.command("ls").description("dead letters, the newest first");
  addPage(addFilter(command));
  command.option("--group", "how many, by destination and reason");
  addRemote(command);
  addExamples(command, "redrive dlq ls --group", "redrive dlq ls --last-status 503 --since 2h");
  command.action((flags: DeadFlags) =>
    askService(screen, flags, async (client) =>
      flags.group
        ? presentGroups(await client.groupDeadLetters(filterOf(flags)))
        : presentList(await client.listDeadLetters(queryOf(flags))),
    ),
  );
}

function presentGroups(list: Awaited<ReturnType<Client["groupDeadLetters"]>>): Presentation {
  const { groups, complete } = list;
  const now = systemClock.now();
  const rows = groups.map(({ destination, reason, count, lastFinishedAt }) => [
    formatInteger(count),
    destination,
    reason ?? "",
    agoWords(lastFinishedAt, now),
  ]);
  const columns = [
    { head: "count", align: "right" },
    { head: "destination" },
    { head: "reason" },
    { head: "the last" },
  ] as const;
  return {
    json: list,
    text: (look) =>
      rows.length === 0 ? ["There are no dead letters."] : table(columns, rows, look),
    ...(!complete && { notes: ["there are more than were counted"] }),
  };
}
