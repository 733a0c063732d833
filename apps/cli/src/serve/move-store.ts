/**
 * `redrive export` and `redrive import`: write everything in a store to a file, and add everything
 * in such a file to another store. They work on the stores themselves, while no service runs on
 * them.
 */

import { createReadStream, existsSync, statSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { resolve } from "node:path";
import process from "node:process";
import { causedError, formatCount, quote, RedriveError, systemClock } from "@redrive/core";
import type { ImportProgress, ImportResult, ImportSource, RowCounts } from "@redrive/service";
import { type Command, Option } from "commander";
import { unreadable } from "../terminal/documents.ts";
import { addExamples } from "../terminal/flags.ts";
import {
  addOutputFlags,
  FAILED,
  OK,
  type OutputOptions,
  PARTIAL,
  type Presentation,
  presentResult,
  reportError,
} from "../terminal/presentation.ts";
import { createProgress } from "../terminal/progress.ts";
import type { Terminal } from "../terminal/terminal.ts";

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

// `redrive import`: adds everything in a file of `redrive export` to a store, while no service runs
// on it. An import that was interrupted is run again.

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

// What both share: the store, and the words for its rows.

/** Required: a default could move another store than the one that was meant. */
function addMovedStoreFlag(command: Command): Command {
  const text = "sqlite:PATH, postgres://... or redis://...; no service may run on it";
  return command.addOption(
    new Option("--store <store>", text).env("REDRIVE_STORE").makeOptionMandatory(),
  );
}

/** The kind of the store, such as `sqlite`. Throws `INVALID_ARGUMENT` for a store in memory. */
async function movedStoreKind(store: string): Promise<string> {
  await movedStorePath(store);
  if (store === "memory:") {
    const message = "a store in memory has no content to move: --store must be another one";
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
  return store.slice(0, store.indexOf(":"));
}

/**
 * The file of a SQLite store. Loads the service only here, because every command loads this module.
 */
async function movedStorePath(store: string): Promise<string | undefined> {
  const { storePath } = await import("./service-config.ts");
  return storePath(store);
}

/** Opening a SQLite store would create the file. */
async function assertStoreExists(store: string): Promise<void> {
  const path = await movedStorePath(store);
  if (path === undefined || (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0) return;
  const message = `the store must exist, got ${quote(path)}: there is no such file, or it is empty`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

function countText(rows: RowCounts): string {
  return [
    formatCount(rows.task, "task"),
    formatCount(rows.attempt, "attempt"),
    formatCount(rows.key, "other key"),
    formatCount(rows.policy, "policy version"),
    formatCount(rows.destination, "destination"),
    formatCount(rows.document, "document"),
  ].join(", ");
}

interface RowProgress {
  draw(done: number, total: number, what: string): void;
  clear(): void;
}

function rowProgress(terminal: Terminal): RowProgress {
  const progress = createProgress(terminal.printError, {
    width: terminal.width,
    isShown: terminal.showsProgress,
  });
  const startMs = systemClock.monotonicMs();
  return {
    draw(done, total, what) {
      progress.draw({ done, total, what, elapsedMs: systemClock.monotonicMs() - startMs });
    },
    clear: () => progress.clear(),
  };
}

// Output file: a new file that has its name only when it is complete and on disk. Until then, the
// name ends with `.part`. Only its owner can read it, because it contains bodies and headers.

/** Larger writes are faster than one per line. */
const WRITE_LENGTH = 1_048_576;

interface OutputFile {
  write(text: string): Promise<void>;
}

/** Calls `fill` with the file. If it fails, nothing is left. Throws `INVALID_ARGUMENT` if it exists. */
async function writeNewFile<T>(path: string, fill: (file: OutputFile) => Promise<T>): Promise<T> {
  assertNew(path);
  const part = `${path}.part`;
  try {
    const handle = await writing(path, () => open(part, "w", 0o600));
    const result = await fillFile(path, handle, fill);
    assertNew(path);
    await writing(path, () => rename(part, path));
    return result;
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

async function fillFile<T>(
  path: string,
  handle: FileHandle,
  fill: (file: OutputFile) => Promise<T>,
): Promise<T> {
  let waiting: string[] = [];
  let length = 0;
  const flush = async () => {
    const text = waiting.join("");
    waiting = [];
    length = 0;
    await writing(path, () => handle.appendFile(text));
  };
  try {
    const result = await fill({
      async write(text) {
        waiting.push(text);
        length += text.length;
        if (length >= WRITE_LENGTH) await flush();
      },
    });
    await flush();
    await writing(path, () => handle.sync());
    return result;
  } finally {
    await handle.close();
  }
}

function assertNew(path: string): void {
  if (!existsSync(path)) return;
  const message = `--out must be a new file, got ${quote(path)}: it exists; name another one`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

async function writing<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    const message = `cannot write ${quote(path)}: ${(cause as Error).message}`;
    throw causedError("INVALID_ARGUMENT", message, cause);
  }
}
