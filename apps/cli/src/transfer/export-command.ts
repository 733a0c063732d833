/**
 * `redrive export`: writes everything in a store to a file, so that it can be moved to another store. It
 * works on the store itself, while no service runs on it.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { systemClock } from "@redrive/core";
import type { RowCounts } from "@redrive/service";
import type { Command } from "commander";
import { addExamples } from "../input/flags.ts";
import { OK, reportError } from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import {
  addMovedStoreFlag,
  assertStoreExists,
  countText,
  movedStoreKind,
  movedStorePath,
  rowProgress,
} from "./moved-store.ts";
import { writeNewFile } from "./output-file.ts";

interface ExportFlags {
  readonly store: string;
  readonly out?: string;
}

export function addExport(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("export")
    .description("Export a store, to move it to another one. The service must be stopped.")
    .option("--out <file>", "a new file; default: standard output");
  addMovedStoreFlag(command);
  addExamples(
    command,
    "redrive export --store sqlite:redrive.db --out redrive.ndjson",
    "redrive export --store sqlite:redrive.db | redrive import --store postgres://db/redrive",
  );
  command.addHelpText(
    "after",
    "\nThe file contains bodies and headers as they are stored.\nTo export tasks of a running service, use `redrive tasks export`.",
  );
  command.action((flags: ExportFlags) => runExport(terminal, flags));
}

async function runExport(terminal: Terminal, { store, out }: ExportFlags): Promise<void> {
  const progress = rowProgress(terminal);
  try {
    const kind = await movedStoreKind(store);
    await assertStoreExists(store);
    const rows =
      out === undefined
        ? await exportTo(store, kind, terminal.printMore, progress.draw)
        : await writeNewFile(out, ({ write }) => exportTo(store, kind, write, progress.draw));
    progress.clear();
    terminal.printError(`exported ${countText(rows)}\n`);
    const blobs = await blobsOf(store);
    if (blobs !== undefined) terminal.printError(`${blobsNote(blobs)}\n`);
    terminal.setExitCode(OK);
  } catch (error) {
    progress.clear();
    reportError(terminal, error);
  }
}

/** The folder with the large bodies of a SQLite store, if it has any at the default place. */
async function blobsOf(store: string): Promise<string | undefined> {
  const path = await movedStorePath(store);
  const folder = resolve(`${path}.blobs`);
  return path !== undefined && existsSync(folder) ? folder : undefined;
}

function blobsNote(folder: string): string {
  return `note: large bodies are not in the export: start the services on the new store with --blobs file:${folder}, or move this folder first`;
}

async function exportTo(
  store: string,
  kind: string,
  write: (text: string) => Promise<void>,
  draw: (done: number, total: number, what: string) => void,
): Promise<RowCounts> {
  const { exportStore } = await import("@redrive/service");
  return exportStore(store, {
    store: kind,
    now: systemClock.now(),
    write,
    onProgress(rows) {
      const done = Object.values(rows).reduce((sum, count) => sum + count, 0);
      draw(done, done, "rows exported");
    },
  });
}
