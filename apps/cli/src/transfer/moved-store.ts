/** Moved store: what `redrive export` and `redrive import` share: the store, and the words for its rows. */
import { statSync } from "node:fs";
import { formatCount, quote, RedriveError, systemClock } from "@redrive/core";
import type { RowCounts } from "@redrive/service";
import { type Command, Option } from "commander";
import { createProgress } from "../print/progress.ts";
import type { Terminal } from "../print/terminal.ts";

/** Required: a default could move another store than the one that was meant. */
export function addMovedStoreFlag(command: Command): Command {
  const text = "sqlite:PATH, postgres://... or redis://...; no service may run on it";
  return command.addOption(
    new Option("--store <store>", text).env("REDRIVE_STORE").makeOptionMandatory(),
  );
}

/** The kind of the store, such as `sqlite`. Throws `INVALID_ARGUMENT` for a store in memory. */
export async function movedStoreKind(store: string): Promise<string> {
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
export async function movedStorePath(store: string): Promise<string | undefined> {
  const { storePath } = await import("../serve/service-config.ts");
  return storePath(store);
}

/** Opening a SQLite store would create the file. */
export async function assertStoreExists(store: string): Promise<void> {
  const path = await movedStorePath(store);
  if (path === undefined || (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0) return;
  const message = `the store must exist, got ${quote(path)}: there is no such file, or it is empty`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

export function countText(rows: RowCounts): string {
  return [
    formatCount(rows.task, "task"),
    formatCount(rows.attempt, "attempt"),
    formatCount(rows.key, "other key"),
    formatCount(rows.policy, "policy version"),
    formatCount(rows.destination, "destination"),
    formatCount(rows.document, "document"),
  ].join(", ");
}

export interface RowProgress {
  draw(done: number, total: number, what: string): void;
  clear(): void;
}

export function rowProgress(terminal: Terminal): RowProgress {
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
