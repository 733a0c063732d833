/**
 * `redrive import`: hands over again, as new tasks, what an export holds that had not ended. Policies
 * must be there before; what has ended is history and stays in the file.
 */
import { formatCount, RedriveError } from "@redrive/core";
import type { Client, TaskToCreate } from "@redrive/service/client";
import { type Command, InvalidArgumentError } from "commander";
import { confirmed } from "../confirm.ts";
import { readText } from "../documents.ts";
import { addExamples } from "../flags.ts";
import { type ImportChoice, importedOf } from "../imported-task.ts";
import { FAILED, OK, PARTIAL, type Presentation } from "../presentation.ts";
import { addRemote, askService, type RemoteFlags } from "../remote.ts";
import type { Screen } from "../screen.ts";

interface ImportFlags extends RemoteFlags {
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

interface Numbered {
  readonly line: number;
  readonly task: TaskToCreate;
}

const BATCH = 250;
const MAX_TOLD = 10;

export function addImport(parent: Command, screen: Screen): void {
  const command = parent
    .command("import <file>")
    .description("hand over again what an export holds that had not ended; - reads standard input")
    .option("--dead", "dead letters too")
    .option("--header <name: value>", "a value that the export has masked", headerFlag, new Map())
    .option("--dry-run", "only count")
    .option("-y, --yes", "do not ask");
  addRemote(command);
  addExamples(
    command,
    "redrive import tasks.ndjson --dry-run",
    'redrive import tasks.ndjson --header "authorization: Bearer $TOKEN" --yes',
  );
  command.action((file: string, flags: ImportFlags) =>
    askService(screen, flags, (client) => importFile(screen, client, file, flags)),
  );
}

function headerFlag(text: string, known: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const [, name = "", value = ""] = /^([^\s:]+):\s*(.*)$/su.exec(text) ?? [];
  if (name === "") throw new InvalidArgumentError('Must be "name: value".');
  return new Map([...known, [name.toLowerCase(), value]]);
}

async function importFile(
  screen: Screen,
  client: Client,
  file: string,
  { dead = false, header, dryRun = false, yes }: ImportFlags,
): Promise<Presentation> {
  const { tasks, refused, ended } = readLines(readText(file), { withDead: dead, headers: header });
  const counts = { imported: tasks.length, known: 0, ended, refused, dryRun };
  if (dryRun || tasks.length === 0) return present(counts);
  const count = tasks.length;
  const isMeant = await confirmed(screen, { verb: "hand over", noun: "task", count, yes });
  const nothing = { json: counts, text: () => ["Nothing was imported."], exitCode: FAILED };
  return isMeant ? present({ ...counts, ...(await handOver(client, tasks, refused)) }) : nothing;
}

interface Read {
  readonly tasks: readonly Numbered[];
  readonly refused: readonly Refusal[];
  readonly ended: number;
}

/** Every line by itself: one that is wrong keeps no other from being read. */
function readLines(text: string, choice: ImportChoice): Read {
  const tasks: Numbered[] = [];
  const refused: Refusal[] = [];
  let ended = 0;
  for (const [index, each] of text.split("\n").entries()) {
    if (each.trim() === "") continue;
    const line = index + 1;
    try {
      const found = importedOf(each, choice);
      if (found.kind === "task") tasks.push({ line, task: found.task });
      else ended++;
    } catch (error) {
      if (!(error instanceof RedriveError)) throw error;
      refused.push({ line, code: error.code, why: error.message });
    }
  }
  return { tasks, refused, ended };
}

async function handOver(
  client: Client,
  tasks: readonly Numbered[],
  before: readonly Refusal[],
): Promise<Pick<Result, "imported" | "known" | "refused">> {
  const refused = [...before];
  let imported = 0;
  let known = 0;
  for (let from = 0; from < tasks.length; from += BATCH) {
    const slice = tasks.slice(from, from + BATCH);
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
    `${formatCount(imported, "task")} ${verb}, ${known} known already, ${ended} ended before, ${refused.length} refused.`,
    ...refused.slice(0, MAX_TOLD).map(({ line, why }) => `line ${line}: ${why}`),
    ...(refused.length > MAX_TOLD ? [`and ${refused.length - MAX_TOLD} more`] : []),
  ];
  return { json: result, text: () => text, exitCode: exitCodeOf(result) };
}
