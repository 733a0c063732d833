/** `redrive dlq purge`: deletes dead letters after the user has confirmed how many. */
import { formatCount, RedriveError } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import type { Command } from "commander";
import { confirmChange } from "../../input/confirm.ts";
import { addExamples } from "../../input/flags.ts";
import { FAILED, type Presentation } from "../../print/presentation.ts";
import type { Terminal } from "../../print/terminal.ts";
import { addServiceFlags, type ClientFlags, callService } from "../service-client.ts";
import { addFilterFlags, type FilterFlags, type TaskFilter, taskFilter } from "../task-filter.ts";

interface PurgeFlags extends ClientFlags, FilterFlags {
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

export function addPurge(parent: Command, terminal: Terminal): void {
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
