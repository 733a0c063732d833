/**
 * `redrive backup` and `redrive restore`: copy a store to a file while the service runs, and put
 * such a copy in the place of a store. They work on the file of the store, so they run on the same
 * machine and need no key.
 */
import { statSync } from "node:fs";
import { formatCount, systemClock } from "@redrive/core";
import type { Command } from "commander";
import { addExamples } from "../terminal/flags.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../terminal/presentation.ts";
import { createProgress } from "../terminal/progress.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { addStoreFlag } from "./serve.ts";

interface BackupFlags extends OutputOptions {
  readonly store?: string;
  readonly to: string;
}

const KIB = 1024;
const POLL_MS = 250;

export function addBackup(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("backup [file]")
    .description("Copy a store to a new file, while the service runs.")
    .requiredOption("--to <file>", "the copy; must not exist");
  addOutputFlags(addStoreFlag(command, "sqlite:PATH"), "json");
  addExamples(
    command,
    "redrive backup redrive.db --to backups/redrive-monday.db",
    "redrive backup --store sqlite:/var/lib/redrive/redrive.db --to /backup/redrive.db --json",
  );
  command.action((file: string | undefined, flags: BackupFlags) =>
    presentResult(terminal, flags, () => backup(terminal, file, flags)),
  );
}

async function backup(
  terminal: Terminal,
  file: string | undefined,
  { store, to }: BackupFlags,
): Promise<Presentation> {
  const { backupPart, backupSqliteFile } = await import("@redrive/service");
  const { storeFile, withFileErrors } = await import("./service-config.ts");
  const source = file?.replace(/^sqlite:/u, "") ?? storeFile(store);
  const stopProgress = showProgress(terminal, source, backupPart(to));
  try {
    const copy = await withFileErrors(() => backupSqliteFile(source, to));
    const size = `${formatCount(copy.tasks, "task")}, ${Math.ceil(copy.bytes / KIB)} KB`;
    return {
      json: { ...copy, file: to },
      text: () => [`${to} is a checked copy of ${source}: ${size}`],
      notes: [`restore it with \`redrive restore ${to} --store sqlite:PATH\``],
    };
  } finally {
    stopProgress();
  }
}

/** Shows how many bytes of the copy are written. The end may be less than the size of the store. */
function showProgress(terminal: Terminal, source: string, part: string): () => void {
  const progress = createProgress(terminal.printError, {
    width: terminal.width,
    isShown: terminal.showsProgress,
  });
  const startMs = systemClock.monotonicMs();
  const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const draw = () => {
    const total = Math.ceil(sizeOf(source) / KIB);
    const done = Math.min(total, Math.ceil(sizeOf(part) / KIB));
    const elapsedMs = systemClock.monotonicMs() - startMs;
    progress.draw({ done, total, what: "KB copied", elapsedMs });
    cancel = systemClock.alarm(POLL_MS, draw);
  };
  let cancel = systemClock.alarm(POLL_MS, draw);
  return () => {
    cancel();
    progress.clear();
  };
}

// Restore: the service must be stopped.

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
  const { storeFile, withFileErrors } = await import("./service-config.ts");
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
