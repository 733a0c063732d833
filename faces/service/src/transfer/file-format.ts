/**
 * File format: the lines of an exported store. NDJSON: a header, a line per row, and a trailer. Each line
 * ends with a checksum of itself, and the trailer has the number of rows and a checksum of all lines
 * before it. So a file that is damaged or incomplete is found, with the number of the line.
 */
import { crc32 } from "node:zlib";
import { isObject, quote, RedriveError } from "@redrive/core";
import { TRANSFER_KINDS, type TransferKind } from "../model/transfer/transfer.ts";

/** The format that this version writes. A file with a higher number is refused. */
export const FORMAT_VERSION = 1;

const FORMAT = "redrive-store";

export interface Header {
  /** The kind of store that the rows come from, such as `sqlite`. */
  readonly store: string;
  readonly createdAt: number;
}

/** The number of rows of each kind. */
export type RowCounts = Readonly<Record<TransferKind, number>>;

export interface Trailer {
  readonly rows: RowCounts;
  /** Of all lines before the trailer, with their line breaks, in hexadecimal. */
  readonly sha256: string;
}

export const NO_ROWS: RowCounts = Object.fromEntries(
  TRANSFER_KINDS.map((kind) => [kind, 0]),
) as RowCounts;

export function headerLine({ store, createdAt }: Header): string {
  return lineOf({ kind: "header", format: FORMAT, version: FORMAT_VERSION, store, createdAt });
}

export function rowLine(kind: TransferKind, row: unknown): string {
  return lineOf({ kind, row });
}

export function trailerLine({ rows, sha256 }: Trailer): string {
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
export function readLine(line: string): Readonly<Record<string, unknown>> {
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
export function readHeader(content: Readonly<Record<string, unknown>>): Header {
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

export function readTrailer({ rows, sha256 }: Readonly<Record<string, unknown>>): Trailer {
  const isComplete =
    isObject(rows) && TRANSFER_KINDS.every((kind) => Number.isSafeInteger(rows[kind]));
  if (!isComplete || typeof sha256 !== "string") {
    throw invalidImport("the trailer lacks the number of rows or the checksum");
  }
  return { rows: rows as unknown as RowCounts, sha256 };
}

export function invalidImport(message: string): RedriveError {
  return new RedriveError("INVALID_IMPORT", message);
}
