/**
 * File state: what a database says about itself: its identity, its last commit, and whether a process
 * has it open. Compared with the ledger, it shows whether commits are missing.
 */
import { RedriveError } from "@redrive/core";
import { type LedgerEntry, ledgerPath } from "./ledger.ts";
import { firstValue } from "./query.ts";
import type { Database } from "./sql.ts";

export interface FileState extends LedgerEntry {
  /** 0 if the file has none: it is new, or of a version without a ledger. */
  readonly fileId: number;
  readonly commit: number;
  /** A process has the file open, or ended without closing it. */
  readonly isOpen: boolean;
}

export function readState(database: Database): FileState {
  const hasMeta = firstValue(database, "SELECT 1 FROM sqlite_schema WHERE name = 'meta'") === 1;
  const get = (name: string) =>
    Number(firstValue(database, `SELECT value FROM meta WHERE name = '${name}'`) ?? 0);
  if (!hasMeta) return { fileId: 0, commit: 0, isOpen: false };
  return { fileId: get("file_id"), commit: get("commit"), isOpen: get("open") === 1 };
}

/** SQL that sets a value of the state. */
export function setState(name: "file_id" | "commit" | "open", value: number): string {
  return `INSERT INTO meta VALUES ('${name}', ${value})
    ON CONFLICT DO UPDATE SET value = excluded.value;`;
}

/** Gives the file a new identity, so that no ledger of another file or time describes it. */
export function newIdentity(database: Database, more = ""): LedgerEntry {
  const fileId = Number(firstValue(database, "SELECT 1 + (random() & 0xfffffffffff)"));
  database.exec(`BEGIN IMMEDIATE; ${setState("file_id", fileId)} ${more} COMMIT`);
  return { fileId, commit: readState(database).commit };
}

/** What is missing, in words; undefined if nothing is. */
export function findLoss(ledger: LedgerEntry | undefined, state: FileState): string | undefined {
  if (ledger === undefined) {
    return state.isOpen
      ? "its ledger is missing, and it was not closed: commits of its log may be missing. It is a copy of a file in use, or another name of it, or the ledger was removed"
      : undefined;
  }
  if (state.fileId !== ledger.fileId) {
    return `it is not the database that its ledger describes: it was replaced, or used under another name. The ledger has ${ledger.commit} commits`;
  }
  const lost = ledger.commit - state.commit;
  if (lost <= 0) return undefined;
  return `${lost} of ${ledger.commit} commits are missing: its log (FILE-wal) was cut, removed or damaged, or an older copy was put in its place`;
}

/** The error for a file that lacks something which was acknowledged. */
export function damaged(file: string, what: string): RedriveError {
  const ways = [
    `put the missing files back (${file}, ${file}-wal and ${ledgerPath(file)} belong together)`,
    `restore a backup with \`redrive restore BACKUP --store sqlite:${file} --force\``,
    `or see what can be saved with \`redrive doctor --repair --store sqlite:${file}\``,
  ];
  const message = `${file} is damaged: ${what}. Nothing was changed. To continue, ${ways.join(", ")}`;
  return new RedriveError("STORE_DAMAGED", message);
}
