/** `redrive dlq purge`: dead letters thrown away for good, once somebody has said how many. */
import { formatCount, RedriveError } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import type { Command } from "commander";
import { confirmed } from "../confirm.ts";
import { addExamples } from "../flags.ts";
import { FAILED, type Presentation } from "../presentation.ts";
import { addRemote, askService, type RemoteFlags } from "../remote.ts";
import type { Screen } from "../screen.ts";
import { addFilter, type FilterFlags, filterOf, type TaskFilter } from "../task-filter.ts";

interface PurgeFlags extends RemoteFlags, FilterFlags {
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

export function addPurge(parent: Command, screen: Screen): void {
  const command = parent
    .command("purge")
    .description("throw dead letters away for good")
    .option("--all", "all of them")
    .option("--dry-run", "only count")
    .option("-y, --yes", "do not ask");
  addFilter(command);
  addRemote(command);
  addExamples(
    command,
    "redrive dlq purge --destination https://example.com --dry-run",
    "redrive dlq purge --all --yes",
  );
  command.action((flags: PurgeFlags) =>
    askService(screen, flags, (client) => purge(screen, client, flags)),
  );
}

async function purge(screen: Screen, client: Client, flags: PurgeFlags): Promise<Presentation> {
  const filter = wantedOf(flags);
  const { groups, complete } = await client.groupDeadLetters(filter);
  const count = groups.reduce((sum, group) => sum + group.count, 0);
  const atLeast = complete ? "" : "at least ";
  if (flags.dryRun || count === 0) {
    const text = `${atLeast}${formatCount(count, "dead letter")} would be discarded.`;
    return { json: { discarded: 0, found: count, complete }, text: () => [text] };
  }
  const { yes } = flags;
  const isMeant = await confirmed(screen, { verb: "discard", noun: "dead letter", count, yes });
  if (!isMeant) {
    return { json: { discarded: 0 }, text: () => ["Nothing was discarded."], exitCode: FAILED };
  }
  const result = await client.discardDeadLetters(filter);
  return {
    json: result,
    text: () => [`${formatCount(result.discarded, "dead letter")} discarded.`],
  };
}

/** The service wants at least one field; "all" is everything since the beginning of time. */
function wantedOf(flags: PurgeFlags): TaskFilter {
  const filter = filterOf(flags);
  if (Object.keys(filter).length > 0) return filter;
  if (flags.all) return { createdFrom: 0 };
  const message = "say which: --destination, --reason, --since ..., or --all";
  throw new RedriveError("INVALID_ARGUMENT", message);
}
