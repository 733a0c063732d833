/**
 * File rows: reads the rows of an exported store, and checks the file on the way. A file is complete only
 * if the last row was read without an error.
 */
import { createHash } from "node:crypto";
import { causedError, RedriveError } from "@redrive/core";
import { decodeRow } from "../model/transfer/rows.ts";
import {
  TRANSFER_KINDS,
  type TransferKind,
  type TransferRows,
} from "../model/transfer/transfer.ts";
import {
  invalidImport,
  NO_ROWS,
  type RowCounts,
  readHeader,
  readLine,
  readTrailer,
} from "./file-format.ts";
import { type FileLine, fileLines } from "./file-lines.ts";

/** A row with the number of its line. */
export interface FileRow {
  readonly line: number;
  readonly bytes: number;
  readonly kind: TransferKind;
  readonly row: TransferRows[TransferKind];
}

/** Throws `INVALID_IMPORT`; the message names the line. */
export async function* fileRows(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<FileRow> {
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
export function totalOf(counts: RowCounts): number {
  return TRANSFER_KINDS.reduce((sum, kind) => sum + counts[kind], 0);
}
