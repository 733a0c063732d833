/**
 * Repair: `redrive doctor --repair` says what a store that is refused still has. With
 * `--accept-loss` the store is used as it is.
 */
import { formatCount, formatInteger, systemClock } from "@redrive/core";
import type { FileReport } from "@redrive/service";
import { FAILED, OK, type Presentation } from "../print/presentation.ts";
import { formatAgo } from "../print/relative-time.ts";

export interface RepairFlags {
  readonly store?: string;
  readonly acceptLoss?: boolean;
}

/** Exits with 1 if something is missing and was not accepted. */
export async function repair({ store, acceptLoss }: RepairFlags): Promise<Presentation> {
  const { acceptSqliteLoss, inspectSqliteFile } = await import("@redrive/service");
  const { storeFile, withFileErrors } = await import("../serve/store-file.ts");
  const path = storeFile(store);
  if (acceptLoss) {
    const { report, kept } = await withFileErrors(() => acceptSqliteLoss(path));
    return {
      json: { ...report, accepted: true, kept },
      text: () => [
        ...reportLines(report),
        `accepted    the store starts without what is missing; the files as they were are ${kept}*`,
      ],
    };
  }
  const report = await withFileErrors(() => inspectSqliteFile(path));
  const isGood = report.loss === null && report.damage.length === 0;
  return {
    json: { ...report, accepted: false },
    text: () => [...reportLines(report), ...adviceLines(report)],
    exitCode: isGood ? OK : FAILED,
  };
}

function reportLines(report: FileReport): readonly string[] {
  const { file, loss, damage, commits, ledgerCommits, ledgerWrittenAt } = report;
  const now = systemClock.now();
  const newest = report.newestTaskAt;
  const ledger =
    ledgerCommits === null
      ? "no readable ledger"
      : `${formatInteger(ledgerCommits)} commits in the ledger`;
  const written = ledgerWrittenAt === null ? "" : `, written ${formatAgo(ledgerWrittenAt, now)}`;
  return [
    `store       ${file}`,
    `missing     ${loss ?? "nothing that the ledger knows"}`,
    ...damage.map((text) => `damaged     ${text}`),
    `commits     ${formatInteger(commits)} in the file, ${ledger}${written}`,
    `saved       ${formatCount(report.tasks, "task")}${newest === null ? "" : `, the newest created ${formatAgo(newest, now)}`}`,
  ];
}

function adviceLines({ loss, damage, file }: FileReport): readonly string[] {
  if (damage.length > 0) {
    return [`next        restore a backup: redrive restore BACKUP --store sqlite:${file} --force`];
  }
  if (loss === null) return ["next        nothing: the store can be used"];
  return [
    `next        put the missing files back, or restore a backup: redrive restore BACKUP --store sqlite:${file} --force`,
    `            or go on without what is missing: redrive doctor --repair --accept-loss --store sqlite:${file}`,
  ];
}
