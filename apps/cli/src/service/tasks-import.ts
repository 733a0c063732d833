/**
 * `redrive tasks import`: creates new tasks from the unfinished tasks of an export. Their policies must
 * be registered first. Tasks that have ended are skipped.
 */
import { formatCount, RedriveError } from "@redrive/core";
import type { Client, TaskToCreate } from "@redrive/service/client";
import { type Command, InvalidArgumentError, Option } from "commander";
import { confirmChange } from "../input/confirm.ts";
import { readText } from "../input/documents.ts";
import { addExamples } from "../input/flags.ts";
import { FAILED, OK, PARTIAL, type Presentation } from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import { BodyUploads, hasBody } from "./body-files.ts";
import { type ImportOptions, parseImportLine } from "./imported-task.ts";
import { addServiceFlags, type ClientFlags, callService } from "./service-client.ts";

interface ImportFlags extends ClientFlags {
  readonly dead?: boolean;
  readonly header: ReadonlyMap<string, string>;
  /** The folder of `tasks export --bodies`. */
  readonly bodies?: string;
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
  /** Tasks that already exist, because they were imported before. */
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

export function addTasksImport(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("import <file>")
    .description(
      "Create new tasks from the unfinished tasks of `tasks export`. Use - for standard input.",
    )
    .option("--dead", "import dead letters too")
    .addOption(
      new Option("--header <name: value>", "set a header that the export masks; repeatable")
        .argParser(headerFlag)
        .default(new Map(), "none"),
    )
    .option("--bodies <folder>", "the folder of `tasks export --bodies`, to upload large bodies")
    .option("--dry-run", "only count; import nothing")
    .option("-y, --yes", "do not ask for confirmation");
  addServiceFlags(command);
  addExamples(
    command,
    "redrive tasks import tasks.ndjson --dry-run",
    'redrive tasks import tasks.ndjson --header "authorization: Bearer $TOKEN" --yes',
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
  { dead = false, header, bodies, dryRun = false, yes }: ImportFlags,
): Promise<Presentation> {
  const read = readLines(readText(file), { withDead: dead, headers: header });
  const { tasks, refused, ended } = bodies === undefined ? read : withBodies(read, bodies);
  const counts = { imported: tasks.length, known: 0, ended, refused, dryRun };
  if (dryRun || tasks.length === 0) return present(counts);
  const count = tasks.length;
  const isConfirmed = await confirmChange(terminal, { verb: "import", noun: "task", count, yes });
  const nothing = { json: counts, text: () => ["Nothing was imported."], exitCode: FAILED };
  return isConfirmed
    ? present({ ...counts, ...(await createTasks(client, tasks, refused, bodies)) })
    : nothing;
}

interface ReadLines {
  readonly tasks: readonly NumberedTask[];
  readonly refused: readonly Refusal[];
  readonly ended: number;
}

/** Reads every line separately, so that an invalid line does not stop the import. */
function readLines(text: string, options: ImportOptions): ReadLines {
  const tasks: NumberedTask[] = [];
  const refused: Refusal[] = [];
  let ended = 0;
  for (const [index, each] of text.split("\n").entries()) {
    if (each.trim() === "") continue;
    const line = index + 1;
    try {
      const found = parseImportLine(each, options);
      if (found.kind === "task") tasks.push({ line, task: found.task });
      else ended++;
    } catch (error) {
      if (!(error instanceof RedriveError)) throw error;
      refused.push({ line, code: error.code, why: error.message });
    }
  }
  return { tasks, refused, ended };
}

/** Refuses tasks whose body is missing from the folder, or incomplete. */
function withBodies({ tasks, refused, ended }: ReadLines, folder: string): ReadLines {
  const isMissing = ({ task: { bodyRef } }: NumberedTask) =>
    bodyRef !== undefined && !hasBody(folder, bodyRef);
  const missing = tasks.filter(isMissing).map(({ line, task: { bodyRef = "" } }) => ({
    line,
    code: "INVALID_IMPORT",
    why: `${folder} has no complete file ${bodyRef}: export with --bodies again`,
  }));
  return {
    tasks: tasks.filter((one) => !isMissing(one)),
    refused: [...refused, ...missing].sort((a, b) => a.line - b.line),
    ended,
  };
}

async function createTasks(
  client: Client,
  tasks: readonly NumberedTask[],
  before: readonly Refusal[],
  folder: string | undefined,
): Promise<Pick<Result, "imported" | "known" | "refused">> {
  const refused = [...before];
  const uploads = folder === undefined ? undefined : new BodyUploads(client, folder);
  let imported = 0;
  let known = 0;
  for (let from = 0; from < tasks.length; from += BATCH_SIZE) {
    const slice = tasks.slice(from, from + BATCH_SIZE);
    const { results } = await client.createTasks(await withUploads(slice, uploads));
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

/** One after the other: each upload may be as long as a service allows. */
async function withUploads(
  slice: readonly NumberedTask[],
  uploads: BodyUploads | undefined,
): Promise<readonly TaskToCreate[]> {
  const tasks: TaskToCreate[] = [];
  for (const { task } of slice) {
    const { bodyRef } = task;
    const isFile = uploads !== undefined && bodyRef !== undefined;
    tasks.push(isFile ? { ...task, bodyRef: await uploads.refOf(bodyRef) } : task);
  }
  return tasks;
}

/** 3 if some tasks were refused, 1 if all were. */
function exitCodeOf({ imported, known, refused }: Result): number {
  if (refused.length === 0) return OK;
  return imported + known > 0 ? PARTIAL : FAILED;
}

function present(result: Result): Presentation {
  const { imported, known, ended, refused, dryRun } = result;
  const verb = dryRun ? "would be imported" : "imported";
  const text = [
    `${formatCount(imported, "task")} ${verb}, ${known} already known, ${ended} already ended, ${refused.length} refused.`,
    ...refused.slice(0, MAX_LISTED).map(({ line, why }) => `line ${line}: ${why}`),
    ...(refused.length > MAX_LISTED ? [`and ${refused.length - MAX_LISTED} more`] : []),
  ];
  return { json: result, text: () => text, exitCode: exitCodeOf(result) };
}
