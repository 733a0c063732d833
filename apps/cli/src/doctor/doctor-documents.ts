/** Doctor documents: checks that this version can read the stored policies and destinations. */
import { existsSync } from "node:fs";
import { readSqliteDocuments, whyUnreadable } from "@redrive/service";
import { isServerStore, storePath } from "../serve/service-config.ts";
import type { Check } from "./doctor-check.ts";

const name = "documents";
const FIX = "replace them (PUT), or run the version that wrote them; other tasks are not affected";

/** The first ones are named. */
const MAX_NAMED = 5;

/** `running`: how many the running service has met; undefined: no service runs. */
export function checkDocuments(store: string, running?: number): Check {
  if (running !== undefined)
    return running === 0 ? ok("the running service has read all") : met(running);
  if (isServerStore(store)) return ok("not checked: only a running service reads them");
  const path = storePath(store);
  if (path === undefined || !existsSync(path)) return ok("none are stored yet");
  try {
    const found = unreadableIn(path);
    if (found.length === 0) return ok("all can be read");
    const more = found.length > MAX_NAMED ? `; and ${found.length - MAX_NAMED} more` : "";
    const names = found.slice(0, MAX_NAMED).join("; ") + more;
    return { name, state: "warn", found: `tasks are held by ${names}`, fix: FIX };
  } catch {
    // The check of the store says why.
    return ok("not checked, because the store cannot be opened");
  }
}

/** A sentence for each document that this version cannot read. */
function unreadableIn(path: string): readonly string[] {
  const found: string[] = [];
  readSqliteDocuments(path, ({ kind, title, text }) => {
    const reason = whyUnreadable(kind, text);
    if (reason !== null) found.push(`${title}: ${reason}`);
  });
  return found;
}

function met(count: number): Check {
  const found = `the running service holds the tasks of ${count}; its log names them`;
  return { name, state: "warn", found, fix: FIX };
}

function ok(found: string): Check {
  return { name, state: "ok", found, fix: "" };
}
