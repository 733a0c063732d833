/**
 * `redrive import`: hands over again, as new tasks, what an export holds that had not ended. Policies
 * must be there before; what has ended is history and stays in the file.
 */
import { RedriveError } from "@redrive/core";
import type { Client, TaskToCreate } from "@redrive/service/client";
import { counted } from "@redrive/simulator/words";
import { type Command, InvalidArgumentError } from "commander";
import { confirmChange } from "../input/confirm.ts";
import { readText } from "../input/documents.ts";
import { addExamples } from "../input/flags.ts";
import { FAILED, OK, PARTIAL, type Presentation } from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import { type ImportOptions, parseImportLine } from "./imported-task.ts";
import { addServiceFlags, type ClientFlags, callService } from "./service-client.ts";

interface ImportFlags extends ClientFlags {
  readonly dead?: boolean;
  readonly header: ReadonlyMap<string, string>;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

interface Refusal {
  readonly line: number;
  readonly code: string;
  readonly why: string;
}

interface Result {
  readonly imported: number;
  /** Known already: they had been imported before. */
  readonly known: number;
  readonly ended: number;
  readonly refused: readonly Refusal[];
  readonly dryRun: boolean;
}

interface NumberedTask {
  readonly line: number;
  readonly task: TaskToCreate;
}

const BATCH_SIZE = 250;
const MAX_LISTED = 10;

export function addImport(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("import <file>")
    .description("hand over again what an export holds that had not ended; - reads standard input")
    .option("--dead", "dead letters too")
    .option("--header <name: value>", "a value that the export has masked", headerFlag, new Map())
    .option("--dry-run", "only count")
    .option("-y, --yes", "do not ask");
  addServiceFlags(command);
  addExamples(
    command,
    "redrive import tasks.ndjson --dry-run",
    'redrive import tasks.ndjson --header "authorization: Bearer $TOKEN" --yes',
  );
  command.action((file: string, flags: ImportFlags) =>
    callService(terminal, flags, (client) => importFile(terminal, client, file, flags)),
  );
}

function headerFlag(text: string, known: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const [, name = "", value = ""] = /^([^\s:]+):\s*(.*)$/su.exec(text) ?? [];
  if (name === "") throw new InvalidArgumentError('Must be "name: value".');
  return new Map([...known, [name.toLowerCase(), value]]);
}

async function importFile(
  terminal: Terminal,
  client: Client,
  file: string,
  { dead = false, header, dryRun = false, yes }: ImportFlags,
): Promise<Presentation> {
  const { tasks, refused, ended } = readLines(readText(file), { withDead: dead, headers: header });
  const counts = { imported: tasks.length, known: 0, ended, refused, dryRun };
  if (dryRun || tasks.length === 0) return present(counts);
  const count = tasks.length;
  const isMeant = await confirmChange(terminal, { verb: "hand over", noun: "task", count, yes });
  const nothing = { json: counts, text: () => ["Nothing was imported."], exitCode: FAILED };
  return isMeant ? present({ ...counts, ...(await createTasks(client, tasks, refused)) }) : nothing;
}

interface ReadLines {
  readonly tasks: readonly NumberedTask[];
  readonly refused: readonly Refusal[];
  readonly ended: number;
}

/** Every line by itself: one that is wrong keeps no other from being read. */
function readLines(text: string, choice: ImportOptions): ReadLines {
  const tasks: NumberedTask[] = [];
  const refused: Refusal[] = [];
  let ended = 0;
  for (const [index, each] of text.split("\n").entries()) {
    if (each.trim() === "") continue;
    const line = index + 1;
    try {
      const found = parseImportLine(each, choice);
      if (found.kind === "task") tasks.push({ line, task: found.task });
      else ended++;
    } catch (error) {
      if (!(error instanceof RedriveError)) throw error;
      refused.push({ line, code: error.code, why: error.message });
    }
  }
  return { tasks, refused, ended };
}

async function createTasks(
  client: Client,
  tasks: readonly NumberedTask[],
  before: readonly Refusal[],
): Promise<Pick<Result, "imported" | "known" | "refused">> {
  const refused = [...before];
  let imported = 0;
  let known = 0;
  for (let from = 0; from < tasks.length; from += BATCH_SIZE) {
    const slice = tasks.slice(from, from + BATCH_SIZE);
    const { results } = await client.createTasks(slice.map(({ task }) => task));
    for (const [index, result] of results.entries()) {
      const line = slice[index]?.line ?? 0;
      if (result.taskId === undefined)
        refused.push({ line, code: result.code ?? "", why: result.detail ?? "" });
      else if (result.replayed) known++;
      else imported++;
    }
  }
  return { imported, known, refused };
}

/** 3 if only some were taken, 1 if none of those that should have been. */
function exitCodeOf({ imported, known, refused }: Result): number {
  if (refused.length === 0) return OK;
  return imported + known > 0 ? PARTIAL : FAILED;
}

function present(result: Result): Presentation {
  const { imported, known, ended, refused, dryRun } = result;
  const verb = dryRun ? "would be imported" : "imported";
  const text = [
    `${counted(imported, "task")} ${verb}, ${known} known already, ${ended} ended before, ${refused.length} refused.`,
    ...refused.slice(0, MAX_LISTED).map(({ line, why }) => `line ${line}: ${why}`),
    ...(refused.length > MAX_LISTED ? [`and ${refused.length - MAX_LISTED} more`] : []),
  ];
  return { json: result, text: () => text, exitCode: exitCodeOf(result) };
}
