/**
 * `redrive tasks export` and `redrive tasks import`: write tasks with their bodies and attempts as
 * NDJSON, newest first, and create new tasks from the unfinished tasks of such a file. The service
 * masks the values of headers that may be secret, so the export has them masked too.
 */

import { createReadStream, createWriteStream, mkdirSync, statSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream as NodeStream } from "node:stream/web";
import {
  causedError,
  formatCount,
  isObject,
  type PolicyDocument,
  quote,
  RedriveError,
  systemClock,
} from "@redrive/core";
import type { Client, TaskToCreate } from "@redrive/service/client";
import { type Command, InvalidArgumentError, Option } from "commander";
import { readText } from "../terminal/documents.ts";
import { addExamples } from "../terminal/flags.ts";
import { FAILED, OK, PARTIAL, type Presentation } from "../terminal/presentation.ts";
import { createProgress } from "../terminal/progress.ts";
import { confirmChange, type Terminal } from "../terminal/terminal.ts";
import {
  addConnectionFlags,
  addServiceFlags,
  type ClientFlags,
  callService,
  createServiceClient,
  withErrorReport,
} from "./service-client.ts";
import { addFilterFlags, addStatusFlag, type FilterFlags, taskFilter } from "./task-selection.ts";
import type { Task } from "./task-text.ts";

interface ExportFlags extends ClientFlags, FilterFlags {
  readonly status?: Task["status"];
  /** The folder for large bodies. */
  readonly bodies?: string;
}

/** One line of the export. */
interface ExportedLine {
  readonly task: Task;
  readonly attempts: Awaited<ReturnType<Client["listAttempts"]>>["attempts"];
  /** An inline policy, which exists only in the task. */
  readonly policy?: unknown;
}

const PAGE_SIZE = 250;

export function addTasksExport(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("export")
    .description(
      "Export tasks of a running service with their bodies and attempts, one task per line.",
    )
    .option("--bodies <folder>", "save large bodies as files there; lines have only their bodyRef");
  addConnectionFlags(addStatusFlag(addFilterFlags(command)));
  addExamples(
    command,
    "redrive tasks export --bodies bodies > tasks.ndjson",
    "redrive tasks export --status EXHAUSTED --since 24h | jq .task.lastError",
  );
  command.action((flags: ExportFlags) =>
    withErrorReport(terminal, flags, () =>
      exportTasks(terminal, createServiceClient(flags), flags),
    ),
  );
}

async function exportTasks(terminal: Terminal, client: Client, flags: ExportFlags): Promise<void> {
  const progress = createProgress(terminal.printError, {
    width: terminal.width,
    isShown: terminal.showsProgress,
  });
  const startMs = systemClock.monotonicMs();
  const { status, bodies } = flags;
  const query = { ...taskFilter(flags), ...(status !== undefined && { status }), limit: PAGE_SIZE };
  const downloads = new BodyDownloads(client, bodies);
  let count = 0;
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page = await client.listTasks({ ...query, ...(cursor !== undefined && { cursor }) });
    for (const { taskId, bodyRef } of page.tasks) {
      terminal.print(`${JSON.stringify(await exportTask(client, taskId))}\n`);
      await downloads.save(taskId, bodyRef);
      const elapsedMs = systemClock.monotonicMs() - startMs;
      progress.draw({ done: ++count, total: count, what: "exporting", elapsedMs });
    }
    cursor = page.cursor;
  }
  progress.clear();
  terminal.printError(`exported ${formatCount(count, "task")}\n`);
  for (const note of downloads.notes) terminal.printError(`note: ${note}\n`);
  for (const problem of downloads.problems) terminal.printError(`error: ${problem}\n`);
  terminal.setExitCode(downloads.problems.length === 0 ? OK : PARTIAL);
}

async function exportTask(client: Client, taskId: string): Promise<ExportedLine> {
  const task = await client.getTask(taskId, { include: ["body"] });
  const { policyId, policyVersion: version } = task;
  const isInline = policyId.startsWith("inline.");
  const policy = isInline ? (await client.getPolicy(policyId, { version })).document : undefined;
  const attempts = await listAllAttempts(client, taskId);
  return { task, attempts, ...(policy !== undefined && { policy }) };
}

async function listAllAttempts(client: Client, taskId: string): Promise<ExportedLine["attempts"]> {
  const all: ExportedLine["attempts"] = [];
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page = await client.listAttempts(taskId, {
      limit: PAGE_SIZE,
      include: "body",
      ...(cursor !== undefined && { cursor }),
    });
    all.push(...page.attempts);
    cursor = page.cursor;
  }
  return all;
}

// `redrive tasks import`: creates new tasks from the unfinished tasks of an export. Their policies
// must be registered first. Tasks that have ended are skipped.

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

// Imported task: turns a line of an export into a task to create, or says why it cannot.

/** The service returns this in place of a value that may be secret. */
const MASK = "***";

interface ImportOptions {
  /** Import dead letters too, not only unfinished tasks. */
  readonly withDead: boolean;
  /** Values for headers that the export masks, by lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
}

type ImportLine =
  | { readonly kind: "task"; readonly task: TaskToCreate }
  /** The task has ended and is not imported. */
  | { readonly kind: "ended" };

/** Throws `INVALID_IMPORT` if the line is invalid or a required value is masked. */
export function parseImportLine(line: string, options: ImportOptions): ImportLine {
  const found = parseExportedTask(line);
  const { status, targetUrl, headers } = found;
  const isUnfinished = status === "PENDING" || status === "IN_FLIGHT";
  if (!isUnfinished && !(options.withDead && status === "EXHAUSTED")) return { kind: "ended" };
  if (targetUrl.includes(`=${MASK}`)) {
    throw invalidImport("the URL is masked: export with a key that has the scope payload:read");
  }
  return { kind: "task", task: taskToCreate(found, unmaskHeaders(headers, options.headers)) };
}

function unmaskHeaders(
  headers: ExportedTask["headers"],
  given: ImportOptions["headers"],
): Record<string, string> {
  const missing = Object.keys(headers).filter(
    (name) => headers[name] === MASK && !given.has(name.toLowerCase()),
  );
  if (missing.length > 0) {
    throw invalidImport(
      `${missing.join(", ")} is masked: set it with --header "${missing[0]}: ..."`,
    );
  }
  // The id of the message of a redriven task: the service refuses it in a new one.
  const { "webhook-id": _, ...own } = headers;
  const filled = Object.entries(own).map(([name, value]) => [
    name,
    value === MASK ? (given.get(name.toLowerCase()) ?? MASK) : value,
  ]);
  return Object.fromEntries(filled);
}

/** Keeps the idempotency key that the target has seen, so that importing twice creates one task. */
function taskToCreate(task: ExportedTask, headers: Record<string, string>): TaskToCreate {
  const { taskId, targetUrl, method, destination, idempotent, labels, deadlineAt } = task;
  const { callbackUrl, body, bodyBase64, bodyRef, status, nextAttemptAt, policy, policyId } = task;
  const isDead = status === "EXHAUSTED";
  return {
    targetUrl,
    method,
    headers,
    destination,
    idempotent,
    labels: ownLabels(labels),
    idempotencyKey: task.idempotencyKey ?? taskId,
    ...(body !== undefined && { body }),
    ...(bodyBase64 !== undefined && { bodyBase64 }),
    // Without its file, the service refuses it unless it has the blobs of the exporting one.
    ...(typeof bodyRef === "string" && { bodyRef }),
    ...(policy === undefined ? { policyId } : { policy: policy as PolicyDocument }),
    ...(nextAttemptAt !== null && { scheduledAt: nextAttemptAt }),
    ...(deadlineAt !== null && !isDead && { deadlineAt }),
    ...(callbackUrl !== null && { callbackUrl }),
  };
}

function invalidImport(why: string): RedriveError {
  return new RedriveError("INVALID_IMPORT", why);
}

/** The service sets labels that begin with `redrive.` itself, and refuses them. */
function ownLabels(labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(labels).filter(([name]) => !name.startsWith("redrive.")),
  );
}

// Exported task: parses and validates a line of `redrive tasks export`. The error for an invalid
// line names the first wrong field.

/** The fields that an import needs. Other fields of a line are ignored. */
interface ExportedTask {
  readonly taskId: string;
  readonly status: string;
  readonly targetUrl: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly destination: string;
  readonly idempotent: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly policyId: string;
  readonly idempotencyKey: string | null;
  readonly nextAttemptAt: number | null;
  readonly deadlineAt: number | null;
  readonly callbackUrl: string | null;
  readonly body: string | undefined;
  readonly bodyBase64: string | undefined;
  /** Null or absent in exports of tasks without a large body. */
  readonly bodyRef: string | null | undefined;
  /** An inline policy, which exists only in the task. */
  readonly policy: object | undefined;
}

/** Throws `INVALID_IMPORT` with the wrong field and its value. */
function parseExportedTask(line: string): ExportedTask {
  const exported = parseJson(line);
  const task = readField(exported, "task", isObject, "an object");
  const read = <T>(name: string, is: Is<T>, wanted: string) =>
    readField(task, name, is, wanted, "task.");
  const text = (name: string) => read(name, isText, "text");
  const textOrNull = (name: string) => read(name, orNull(isText), "text or null");
  const instantOrNull = (name: string) => read(name, orNull(isInteger), "a whole number or null");
  const optionalText = (name: string) => read(name, orAbsent(isText), "text");
  const texts = (name: string) => read(name, isTextRecord, "an object of texts");
  return {
    taskId: text("taskId"),
    status: text("status"),
    targetUrl: text("targetUrl"),
    method: text("method"),
    headers: texts("headers"),
    destination: text("destination"),
    idempotent: read("idempotent", isBoolean, "true or false"),
    labels: texts("labels"),
    policyId: text("policyId"),
    idempotencyKey: textOrNull("idempotencyKey"),
    nextAttemptAt: instantOrNull("nextAttemptAt"),
    deadlineAt: instantOrNull("deadlineAt"),
    callbackUrl: textOrNull("callbackUrl"),
    body: optionalText("body"),
    bodyBase64: optionalText("bodyBase64"),
    bodyRef: read("bodyRef", orAbsent(orNull(isText)), "text or null"),
    policy: readField(exported, "policy", orAbsent(isObject), "an object"),
  };
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    // Does not quote the line: it has headers.
    throw causedError("INVALID_IMPORT", "must be JSON", cause);
  }
}

/** Their values may hold secrets, or contain a field that may. */
const SECRET_FIELDS: ReadonlySet<string> = new Set(["task", "headers", "body", "bodyBase64"]);

type Is<T> = (value: unknown) => value is T;

const isText: Is<string> = (value) => typeof value === "string";
const isBoolean: Is<boolean> = (value) => typeof value === "boolean";
const isInteger: Is<number> = (value): value is number => Number.isSafeInteger(value);
const isTextRecord: Is<Readonly<Record<string, string>>> = (
  value,
): value is Readonly<Record<string, string>> =>
  isObject(value) && Object.values(value).every(isText);

function orNull<T>(is: Is<T>): Is<T | null> {
  return (value): value is T | null => value === null || is(value);
}

function orAbsent<T>(is: Is<T>): Is<T | undefined> {
  return (value): value is T | undefined => value === undefined || is(value);
}

function readField<T>(from: unknown, name: string, is: Is<T>, wanted: string, prefix = ""): T {
  const value = isObject(from) && Object.hasOwn(from, name) ? from[name] : undefined;
  if (is(value)) return value;
  const isHidden = value !== undefined && SECRET_FIELDS.has(name);
  const got = isHidden ? "another value" : quote(value);
  const text = `${prefix}${name} must be ${wanted}, got ${got}`;
  throw new RedriveError("INVALID_IMPORT", text);
}

// Body files: the large bodies of exported tasks, one file per body in a folder. They may be longer
// than memory, so each one is a stream. The name of a file is the `bodyRef` of its tasks.

/** A ref has no character that is special in a path. */
const REF = /^[\da-f-]{36}\.\d+\.[\da-f]{64}$/u;

/** Saves the bodies of exported tasks, and counts those that are missing from the export. */
class BodyDownloads {
  readonly #client: Client;
  readonly #folder: string | undefined;

  // Mutable state: tasks whose body was not saved.
  #left = 0;
  readonly #unreadable: string[] = [];

  /** Without a folder, it only counts. */
  constructor(client: Client, folder: string | undefined) {
    this.#client = client;
    this.#folder = folder;
  }

  /** Throws `INVALID_ARGUMENT` if the folder cannot be written. */
  async save(taskId: string, bodyRef: string | null): Promise<void> {
    if (bodyRef === null) return;
    if (this.#folder === undefined) this.#left++;
    else if (!hasBody(this.#folder, bodyRef)) await this.#download(this.#folder, taskId, bodyRef);
  }

  async #download(folder: string, taskId: string, bodyRef: string): Promise<void> {
    const part = join(folder, `${bodyRef}.part`);
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const stream = Readable.fromWeb(
        (await this.#client.downloadBody(taskId)) as NodeStream<Uint8Array>,
      );
      await pipeline(stream, createWriteStream(part, { mode: 0o600, flush: true }));
      await rename(part, join(folder, bodyRef));
    } catch (error) {
      await rm(part, { force: true });
      // A failed system call is a problem of the folder. Other errors are problems of one body.
      if ((error as NodeJS.ErrnoException).syscall !== undefined) throw unwritable(folder, error);
      this.#unreadable.push(`the body of ${taskId} could not be read: ${(error as Error).message}`);
    }
  }

  /** Why the export is not complete. */
  get problems(): readonly string[] {
    return this.#unreadable;
  }

  get notes(): readonly string[] {
    if (this.#left === 0) return [];
    const tasks = formatCount(this.#left, "task");
    return [`${tasks} with a large body, which is not in the export: add --bodies <folder>`];
  }
}

function unwritable(folder: string, cause: unknown): Error {
  const text = `${quote(folder)} cannot be written: ${(cause as Error).message}`;
  return causedError("INVALID_ARGUMENT", text, cause);
}

/** Whether the folder has this body, in full. */
function hasBody(folder: string, bodyRef: string): boolean {
  if (!REF.test(bodyRef)) return false;
  const size = statSync(join(folder, bodyRef), { throwIfNoEntry: false })?.size;
  return size === Number(bodyRef.split(".")[1]);
}

/** Uploads each body once, and returns its new `bodyRef`. */
class BodyUploads {
  readonly #client: Client;
  readonly #folder: string;
  readonly #refs = new Map<string, string>();

  constructor(client: Client, folder: string) {
    this.#client = client;
    this.#folder = folder;
  }

  async refOf(exportedRef: string): Promise<string> {
    const known = this.#refs.get(exportedRef);
    if (known !== undefined) return known;
    const file = createReadStream(join(this.#folder, exportedRef));
    const stream = Readable.toWeb(file) as ReadableStream<Uint8Array>;
    const { bodyRef } = await this.#client.uploadBody(stream);
    this.#refs.set(exportedRef, bodyRef);
    return bodyRef;
  }
}
