/**
 * `redrive backup`: copies a store to a file while the service runs. It reads the file of the store,
 * so it runs on the same machine and needs no key.
 */
import { statSync } from "node:fs";
import { formatCount, systemClock } from "@redrive/core";
import type { Command } from "commander";
import { addExamples } from "../input/flags.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../print/presentation.ts";
import { createProgress } from "../print/progress.ts";
import type { Terminal } from "../print/terminal.ts";
import { addStoreFlag } from "../serve/serve.ts";

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
  const { storeFile, withFileErrors } = await import("../serve/store-file.ts");
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
