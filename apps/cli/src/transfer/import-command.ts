/**
 * `redrive import`: adds everything in a file of `redrive export` to a store, while no service runs on it.
 * An import that was interrupted is run again.
 */
import { createReadStream } from "node:fs";
import process from "node:process";
import { formatCount, RedriveError } from "@redrive/core";
import type { ImportProgress, ImportResult, ImportSource } from "@redrive/service";
import type { Command } from "commander";
import { unreadable } from "../input/documents.ts";
import { addExamples } from "../input/flags.ts";
import {
  addOutputFlags,
  FAILED,
  OK,
  type OutputOptions,
  PARTIAL,
  type Presentation,
  presentResult,
  reportError,
} from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import { addMovedStoreFlag, countText, movedStoreKind, rowProgress } from "./moved-store.ts";

interface ImportFlags extends OutputOptions {
  readonly store: string;
  readonly in?: string;
  readonly dryRun?: boolean;
}

/** Of the file at once. */
const READ_BYTES = 1_048_576;

export function addImport(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("import")
    .description("Import an exported store into another one. The service must be stopped.")
    .option("--in <file>", "a file of `redrive export`; default: standard input")
    .option("--dry-run", "only check the file and compare it with the store");
  addOutputFlags(addMovedStoreFlag(command), "json");
  addExamples(
    command,
    "redrive import --store postgres://db/redrive --in redrive.ndjson --dry-run",
    "redrive import --store redis://127.0.0.1:6379 --in redrive.ndjson",
  );
  command.addHelpText(
    "after",
    "\nRows that the store has already are skipped, so a second run continues an import that was interrupted.\nTo create new tasks in a running service, use `redrive tasks import`.",
  );
  command.action((flags: ImportFlags) => runImport(terminal, flags));
}

async function runImport(terminal: Terminal, flags: ImportFlags): Promise<void> {
  const { store, in: file, dryRun = false } = flags;
  const progress = rowProgress(terminal);
  let added = 0;
  const onProgress = (done: ImportProgress) => {
    added = done.added;
    const what = done.isWriting ? "rows imported" : "rows checked";
    progress.draw(done.rows, done.total ?? done.rows, what);
  };
  try {
    await movedStoreKind(store);
    const { importStore } = await import("@redrive/service");
    const result = await importStore(store, sourceOf(terminal, file), { dryRun, onProgress });
    progress.clear();
    await presentResult(terminal, flags, () => present(result, dryRun));
  } catch (error) {
    progress.clear();
    reportError(terminal, error);
    if (added > 0) reportPart(terminal, added);
  }
}

function reportPart(terminal: Terminal, added: number): void {
  const rows = formatCount(added, "row");
  terminal.printError(
    `note: ${rows} imported before the error; run the command again to continue\n`,
  );
  terminal.setExitCode(PARTIAL);
}

function sourceOf(terminal: Terminal, file: string | undefined): ImportSource {
  if (file !== undefined) return { open: () => chunksOf(file), isRepeatable: true };
  if (terminal.isInteractive) {
    const message =
      "there is no file to import: name one with --in, or pipe `redrive export` into it";
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
  return { open: () => process.stdin, isRepeatable: false };
}

async function* chunksOf(file: string): AsyncGenerator<Uint8Array> {
  const stream = createReadStream(file, { highWaterMark: READ_BYTES });
  try {
    for await (const chunk of stream) yield chunk as Buffer;
  } catch (cause) {
    throw unreadable(file, cause);
  } finally {
    stream.destroy();
  }
}

function present(result: ImportResult, dryRun: boolean): Presentation {
  const { rows, added, same, different } = result;
  const verb = dryRun ? "would be imported" : "imported";
  const text = [
    `${formatCount(added, "row")} ${verb}, ${same} already in the store`,
    ...(different.length === 0 ? [`the file has ${countText(rows)}`] : differenceText(result)),
  ];
  const failure = added > 0 && !dryRun ? PARTIAL : FAILED;
  return {
    json: { ...result, dryRun },
    text: () => text,
    exitCode: different.length === 0 ? OK : failure,
  };
}

function differenceText({ different }: ImportResult): readonly string[] {
  return [
    "the store has other content, so the import was refused: use an empty store",
    ...different.map(({ line, kind, row }) => `line ${line}: the store has another ${kind} ${row}`),
  ];
}
