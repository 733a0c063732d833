/**
 * `redrive restore`: puts a backup in the place of a store. The service must be stopped.
 */
import { formatCount } from "@redrive/core";
import type { Command } from "commander";
import { addExamples } from "../input/flags.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import { addStoreFlag } from "../serve/serve.ts";

interface RestoreFlags extends OutputOptions {
  readonly store?: string;
  readonly force?: boolean;
}

export function addRestore(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("restore <backup>")
    .description("Create a store from a backup. The service must be stopped.")
    .option("--force", "replace an existing store; its files are kept under another name");
  addOutputFlags(addStoreFlag(command, "sqlite:PATH"), "json");
  addExamples(
    command,
    "redrive restore backups/redrive-monday.db --store sqlite:redrive.db",
    "redrive restore /backup/redrive.db --store sqlite:/var/lib/redrive/redrive.db --force",
  );
  command.action((backup: string, flags: RestoreFlags) =>
    presentResult(terminal, flags, () => restore(backup, flags)),
  );
}

const SENT_AGAIN =
  "tasks that were sent after the backup was made are sent again: their idempotency keys let targets recognize them";

async function restore(
  backup: string,
  { store, force = false }: RestoreFlags,
): Promise<Presentation> {
  const { restoreSqliteFile } = await import("@redrive/service");
  const { storeFile, withFileErrors } = await import("../serve/store-file.ts");
  const path = storeFile(store);
  const restored = await withFileErrors(() => restoreSqliteFile(backup, path, { force }));
  const { file, kept, backup: found } = restored;
  const text = `${file} has the ${formatCount(found.tasks, "task")} of ${backup}`;
  return {
    json: { file, tasks: found.tasks, commit: found.commit, kept },
    text: () => [kept === null ? text : `${text}; the old store is ${kept}`],
    notes: [SENT_AGAIN],
  };
}
