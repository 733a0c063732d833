/**
 * Transfer: exports a store to a file, or imports a file into a store, while no service runs on it. Ids,
 * history and keys are kept.
 */
import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { causedError, isObject, messageOf, quote, RedriveError } from "@redrive/core";
import { serviceError } from "./model/errors.ts";
import { guardedStore } from "./model/guarded-store.ts";
import type { Store } from "./model/store.ts";
import {
  decodeRow,
  encodeRow,
  positionOf,
  type StoreTransfer,
  TRANSFER_KINDS,
  type TransferKind,
  type TransferRows,
  transferOf,
  type WriteResult,
} from "./model/transfer.ts";
import { checkStoreText, openStore } from "./open-store.ts";

/** Throws `STORE_IN_USE` while a service runs on the store. */
export function exportStore(store: string, options: ExportOptions): Promise<RowCounts> {
  return withTransfer(store, (transfer) => exportRows(transfer, options));
}

/** Throws `INVALID_IMPORT` for a damaged file, and `STORE_IN_USE` while a service runs on the store. */
export function importStore(
  store: string,
  source: ImportSource,
  options: ImportOptions,
): Promise<ImportResult> {
  return withTransfer(store, (transfer) => importRows(transfer, source, options));
}

async function withTransfer<T>(
  text: string,
  work: (transfer: StoreTransfer) => Promise<T>,
): Promise<T> {
  const store = await open(text);
  try {
    const transfer = transferOf(guardedStore(store, { failed: () => {} }));
    if (transfer === undefined) {
      throw serviceError("INVALID_ARGUMENT", "the content of this store cannot be moved");
    }
    return await work(transfer);
  } finally {
    await store.close();
  }
}

async function open(text: string): Promise<Store> {
  try {
    checkStoreText(text);
    return await openStore(text);
  } catch (error) {
    if (error instanceof RedriveError) throw error;
    throw serviceError(
      "STORE_UNAVAILABLE",
      `the store cannot be opened: ${messageOf(error)}`,
      error,
    );
  }
}

// Export store: writes everything in a store to a file, row by row, in pages of bounded size.

export interface ExportOptions {
  /** The kind of store, for the header. */
  readonly store: string;
  readonly now: number;
  /** Resolves when more can be written. */
  write(text: string): Promise<void>;
  /** Called after each page. */
  onProgress?(rows: RowCounts): void;
}

/** A body has at most 64 KiB, and a document may be larger. */
const PAGE_ROWS: RowCounts = {
  policy: 250,
  destination: 250,
  document: 50,
  task: 250,
  attempt: 500,
  key: 1000,
};

/** Throws `STORE_IN_USE` if a node runs on the store before or after the export. */
export async function exportRows(
  transfer: StoreTransfer,
  options: ExportOptions,
): Promise<RowCounts> {
  const { store, now, write, onProgress } = options;
  const hash = createHash("sha256");
  const counts: Record<TransferKind, number> = { ...NO_ROWS };
  const writeLine = (line: string) => {
    hash.update(line);
    return write(line);
  };
  await assertStopped(transfer);
  await writeLine(headerLine({ store, createdAt: now }));
  for (const kind of TRANSFER_KINDS) {
    for await (const rows of pagesOf(transfer, kind)) {
      for (const row of rows) await writeLine(rowLine(kind, encodeRow(kind, row)));
      counts[kind] += rows.length;
      onProgress?.(counts);
    }
  }
  await assertStopped(transfer);
  await write(trailerLine({ rows: counts, sha256: hash.digest("hex") }));
  return counts;
}

async function* pagesOf(transfer: StoreTransfer, kind: TransferKind) {
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page = await transfer.read(kind, { limit: PAGE_ROWS[kind], cursor });
    yield page.rows;
    cursor = page.cursor;
  }
}

/** Throws `STORE_IN_USE` if a node has a lease. */
async function assertStopped(transfer: StoreTransfer): Promise<void> {
  const nodes = await transfer.liveNodes();
  if (nodes.length === 0) return;
  const which = nodes.length === 1 ? `node ${nodes[0]} runs` : `${nodes.length} nodes run`;
  const fix = "stop them first; the lease of a node that was killed lasts for 10 seconds";
  throw serviceError("STORE_IN_USE", `${which} on the store: ${fix}`);
}

// Import store: adds the rows of an exported store to another one. Rows that the store has already
// are skipped, so an import that was interrupted is run again. A row that differs stops it.

export interface ImportSource {
  /** The bytes of the file, from its beginning. */
  open(): AsyncIterable<Uint8Array>;
  /** True if it can be opened twice. Then the whole file is checked before the first row is written. */
  readonly isRepeatable: boolean;
}

export interface ImportOptions {
  /** Only checks and compares. */
  readonly dryRun: boolean;
  /** Called after each batch. */
  onProgress?(progress: ImportProgress): void;
}

export interface ImportProgress {
  /** Rows that were read in this pass. */
  readonly rows: number;
  /** All rows of the file; null in the first pass. */
  readonly total: number | null;
  /** False: the rows are only checked in this pass. */
  readonly isWriting: boolean;
  /** Rows that were added to the store. */
  readonly added: number;
}

export interface Difference {
  readonly line: number;
  readonly kind: TransferKind;
  /** What identifies the row. */
  readonly row: string;
}

export interface ImportResult {
  readonly rows: RowCounts;
  readonly added: number;
  /** Rows that the store had already. */
  readonly same: number;
  /** The first ones. If there are any, the import has stopped, or not begun. */
  readonly different: readonly Difference[];
}

const BATCH_ROWS = 256;
const BATCH_BYTES = 2 * 1024 * 1024;
const MAX_DIFFERENCES = 10;

/**
 * Throws `INVALID_IMPORT` if the file is damaged or incomplete, and `STORE_IN_USE` if a node runs on the
 * store before or after the import.
 */
export async function importRows(
  transfer: StoreTransfer,
  source: ImportSource,
  options: ImportOptions,
): Promise<ImportResult> {
  await assertStopped(transfer);
  const { isRepeatable } = source;
  const context = { transfer, source, onProgress: options.onProgress };
  if (options.dryRun) return pass({ ...context, mode: "compare", total: null });
  if (!isRepeatable)
    return written(transfer, await pass({ ...context, mode: "write", total: null }));
  const mode = (await isEmpty(transfer)) ? "check" : "compare";
  const found = await pass({ ...context, mode, total: null });
  if (found.different.length > 0) return { ...found, added: 0 };
  const total = totalOf(found.rows);
  return written(transfer, await pass({ ...context, mode: "write", total }));
}

/** A node that has started meanwhile may have run tasks of a part of the file. */
async function written(transfer: StoreTransfer, result: ImportResult): Promise<ImportResult> {
  await assertStopped(transfer);
  return result;
}

async function isEmpty(transfer: StoreTransfer): Promise<boolean> {
  for (const kind of TRANSFER_KINDS) {
    const { rows, cursor } = await transfer.read(kind, { limit: 1 });
    if (rows.length > 0 || cursor !== null) return false;
  }
  return true;
}

interface Batch {
  readonly kind: TransferKind;
  readonly rows: readonly FileRow[];
}

interface Pass {
  readonly transfer: StoreTransfer;
  readonly source: ImportSource;
  /** `check` reads only the file. */
  readonly mode: "check" | "compare" | "write";
  readonly total: number | null;
  readonly onProgress: ImportOptions["onProgress"];
}

/** Reads the file once. A row that differs ends a pass that writes. */
async function pass({ transfer, source, mode, total, onProgress }: Pass): Promise<ImportResult> {
  const counts: Record<TransferKind, number> = { ...NO_ROWS };
  const different: Difference[] = [];
  const isWriting = mode === "write";
  let added = 0;
  let same = 0;
  for await (const batch of batchesOf(fileRows(source.open()))) {
    const results = await resultsOf(transfer, batch, mode);
    counts[batch.kind] += batch.rows.length;
    for (const [at, { line, kind, row }] of batch.rows.entries()) {
      if (results[at] === "added") added++;
      else if (results[at] === "same") same++;
      else different.push({ line, kind, row: positionOf(kind, row).join(" ") });
    }
    onProgress?.({ rows: totalOf(counts), total, isWriting, added: isWriting ? added : 0 });
    if (different.length > 0 && isWriting) break;
    if (different.length >= MAX_DIFFERENCES) different.length = MAX_DIFFERENCES;
  }
  return { rows: counts, added, same, different };
}

async function resultsOf(
  transfer: StoreTransfer,
  { kind, rows }: Batch,
  mode: Pass["mode"],
): Promise<readonly WriteResult[]> {
  if (mode === "check") return rows.map(() => "added");
  return transfer[mode](
    kind,
    rows.map(({ row }) => row as never),
  );
}

/** Rows of one kind, in bounded numbers. */
async function* batchesOf(rows: AsyncIterable<FileRow>): AsyncGenerator<Batch> {
  let batch: FileRow[] = [];
  let bytes = 0;
  for await (const row of rows) {
    const [first] = batch;
    const isFull = batch.length >= BATCH_ROWS || bytes + row.bytes > BATCH_BYTES;
    if (first !== undefined && (isFull || first.kind !== row.kind)) {
      yield { kind: first.kind, rows: batch };
      batch = [];
      bytes = 0;
    }
    batch.push(row);
    bytes += row.bytes;
  }
  const [first] = batch;
  if (first !== undefined) yield { kind: first.kind, rows: batch };
}

// File rows: reads the rows of an exported store, and checks the file on the way. A file is
// complete only if the last row was read without an error.

/** A row with the number of its line. */
interface FileRow {
  readonly line: number;
  readonly bytes: number;
  readonly kind: TransferKind;
  readonly row: TransferRows[TransferKind];
}

/** Throws `INVALID_IMPORT`; the message names the line. */
async function* fileRows(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<FileRow> {
  const file = new FileCheck();
  for await (const line of fileLines(chunks)) {
    const row = atLine(line.number, () => file.read(line));
    if (row !== undefined) yield row;
  }
  file.end();
}

function atLine<T>(number: number, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof RedriveError) && !(error instanceof SyntaxError)) throw error;
    throw causedError("INVALID_IMPORT", `line ${number}: ${error.message}`, error);
  }
}

class FileCheck {
  readonly #hash = createHash("sha256");
  readonly #counts: Record<TransferKind, number> = { ...NO_ROWS };
  #lines = 0;
  #kindAt = 0;
  #isEnded = false;

  /** Undefined for a line that is no row. */
  read(line: FileLine): FileRow | undefined {
    if (this.#isEnded) throw invalidImport("it follows the trailer, which must be the last line");
    if (!line.isComplete) throw invalidImport("the file is truncated within this line");
    const content = readLine(line.bytes.toString());
    this.#lines = line.number;
    if (line.number === 1) readHeader(content);
    else if (content["kind"] === "trailer") return this.#readTrailer(content);
    this.#hash.update(line.bytes).update("\n");
    return line.number === 1 ? undefined : this.#readRow(line, content);
  }

  #readRow(line: FileLine, { kind, row }: Readonly<Record<string, unknown>>): FileRow {
    const at = TRANSFER_KINDS.indexOf(kind as TransferKind);
    if (at < 0) throw invalidImport(`it has the unknown kind ${JSON.stringify(kind)}`);
    if (at < this.#kindAt) {
      throw invalidImport(`a ${kind} must come before each ${TRANSFER_KINDS[this.#kindAt]}`);
    }
    this.#kindAt = at;
    const found = kind as TransferKind;
    this.#counts[found]++;
    return {
      line: line.number,
      bytes: line.bytes.length,
      kind: found,
      row: decodeRow(found, row),
    };
  }

  #readTrailer(content: Readonly<Record<string, unknown>>): undefined {
    const { rows, sha256 } = readTrailer(content);
    this.#isEnded = true;
    const wrong = TRANSFER_KINDS.find((kind) => rows[kind] !== this.#counts[kind]);
    if (wrong !== undefined) {
      const found = `${this.#counts[wrong]} of ${rows[wrong]} rows of the kind ${wrong}`;
      throw invalidImport(`the file has ${found}: lines are missing, or were added`);
    }
    if (this.#hash.digest("hex") !== sha256) {
      throw invalidImport("the file is damaged: its lines were exchanged or replaced");
    }
  }

  /** Throws unless the file has ended with its trailer. */
  end(): void {
    if (this.#isEnded) return;
    const last = this.#lines === 0 ? "it is empty" : `it ends after line ${this.#lines}`;
    throw invalidImport(`the file is truncated: ${last}, without the trailer`);
  }
}

/** The sum of all kinds. */
function totalOf(counts: RowCounts): number {
  return TRANSFER_KINDS.reduce((sum, kind) => sum + counts[kind], 0);
}

// File lines: splits the bytes of a file into lines, of which it keeps one at a time in memory.

/** Far above any row: a body has at most 64 KiB, and a document is small. */
export const MAX_LINE_BYTES = 16 * 1024 * 1024;

interface FileLine {
  /** From 1. */
  readonly number: number;
  /** Without its line break. */
  readonly bytes: Buffer;
  /** False: the file ends before the line break. */
  readonly isComplete: boolean;
}

const LINE_BREAK = 10;

export async function* fileLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<FileLine> {
  let number = 0;
  let parts: Buffer[] = [];
  let length = 0;
  const add = (part: Buffer) => {
    parts.push(part);
    length += part.length;
    if (length <= MAX_LINE_BYTES) return;
    throw invalidImport(`line ${number + 1} is longer than ${MAX_LINE_BYTES} bytes`);
  };
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    let start = 0;
    for (let end = bytes.indexOf(LINE_BREAK); end >= 0; end = bytes.indexOf(LINE_BREAK, start)) {
      add(bytes.subarray(start, end));
      yield { number: ++number, bytes: Buffer.concat(parts, length), isComplete: true };
      parts = [];
      length = 0;
      start = end + 1;
    }
    if (start < bytes.length) add(bytes.subarray(start));
  }
  if (length > 0) {
    yield { number: number + 1, bytes: Buffer.concat(parts, length), isComplete: false };
  }
}

// File format: the lines of an exported store. NDJSON: a header, a line per row, and a trailer.
// Each line ends with a checksum of itself, and the trailer has the number of rows and a checksum
// of all lines before it. So a file that is damaged or incomplete is found, with the number of the
// line.

/** The format that this version writes. A file with a higher number is refused. */
const FORMAT_VERSION = 1;

const FORMAT = "redrive-store";

interface Header {
  /** The kind of store that the rows come from, such as `sqlite`. */
  readonly store: string;
  readonly createdAt: number;
}

/** The number of rows of each kind. */
export type RowCounts = Readonly<Record<TransferKind, number>>;

interface Trailer {
  readonly rows: RowCounts;
  /** Of all lines before the trailer, with their line breaks, in hexadecimal. */
  readonly sha256: string;
}

const NO_ROWS: RowCounts = Object.fromEntries(TRANSFER_KINDS.map((kind) => [kind, 0])) as RowCounts;

function headerLine({ store, createdAt }: Header): string {
  return lineOf({ kind: "header", format: FORMAT, version: FORMAT_VERSION, store, createdAt });
}

function rowLine(kind: TransferKind, row: unknown): string {
  return lineOf({ kind, row });
}

function trailerLine({ rows, sha256 }: Trailer): string {
  return lineOf({ kind: "trailer", rows, sha256 });
}

/** With its line break. */
function lineOf(content: object): string {
  const text = JSON.stringify(content).slice(0, -1);
  return `${text},"crc32":"${checksumOf(text)}"}\n`;
}

function checksumOf(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}

const ENDING = /,"crc32":"(?<checksum>[\da-f]{8})"\}$/u;

/** The content of a line, without its line break. Throws `INVALID_IMPORT` if it is damaged. */
function readLine(line: string): Readonly<Record<string, unknown>> {
  const ending = ENDING.exec(line);
  if (ending === null) {
    throw invalidImport(`it is not a line of an export, got ${quote(line)}`);
  }
  const text = line.slice(0, ending.index);
  if (checksumOf(text) !== ending.groups?.["checksum"]) {
    throw invalidImport("it is damaged: its checksum does not match");
  }
  const content: unknown = JSON.parse(`${text}}`);
  if (isObject(content)) return content;
  throw invalidImport(`it must be an object, got ${quote(line)}`);
}

/** Throws `INVALID_IMPORT` for the first line of another file, or of a newer version. */
function readHeader(content: Readonly<Record<string, unknown>>): Header {
  const { kind, format, version, store, createdAt } = content;
  if (kind !== "header" || format !== FORMAT) {
    throw invalidImport("the file does not begin with the header of an exported store");
  }
  if (typeof version === "number" && version > FORMAT_VERSION) {
    const known = `this version reads up to ${FORMAT_VERSION}`;
    throw invalidImport(`the file has format ${version}, ${known}: upgrade this Redrive`);
  }
  if (version !== FORMAT_VERSION) throw invalidImport(`unknown format ${quote(version)}`);
  return { store: String(store), createdAt: Number(createdAt) };
}

function readTrailer({ rows, sha256 }: Readonly<Record<string, unknown>>): Trailer {
  const isComplete =
    isObject(rows) && TRANSFER_KINDS.every((kind) => Number.isSafeInteger(rows[kind]));
  if (!isComplete || typeof sha256 !== "string") {
    throw invalidImport("the trailer lacks the number of rows or the checksum");
  }
  return { rows: rows as unknown as RowCounts, sha256 };
}

function invalidImport(message: string): RedriveError {
  return new RedriveError("INVALID_IMPORT", message);
}
