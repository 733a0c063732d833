/**
 * `redrive destinations get|set|edit`: shows a destination with its document, and changes the document.
 * The service validates it. A change shows what it replaces.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  causedError,
  DocumentError,
  type FieldProblem,
  formatDuration,
  formatInteger,
  isObject,
  quote,
  RedriveError,
  systemClock,
} from "@redrive/core";
import { type Client, knownDocument, serviceGuards } from "@redrive/service/client";
import type { Command } from "commander";
import { readJson } from "../../input/documents.ts";
import { addExamples } from "../../input/flags.ts";
import { jsonLines } from "../../print/json-lines.ts";
import type { Presentation } from "../../print/presentation.ts";
import { formatAgo } from "../../print/relative-time.ts";
import type { Terminal, TextStyle } from "../../print/terminal.ts";
import { addServiceFlags, type ClientFlags, callService } from "../service-client.ts";
import { type Destination, stateOf } from "./destination-state.ts";

type Document = Parameters<Client["configureDestination"]>[1];

interface SetFlags extends ClientFlags {
  readonly dryRun?: boolean;
}

export function addDestinationDocument(parent: Command, terminal: Terminal): void {
  addGet(parent, terminal);
  addSet(parent, terminal);
  addEdit(parent, terminal);
}

function addGet(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("get <name>")
    .description("Show a destination: its state, its counts and its document.");
  addServiceFlags(command);
  addExamples(command, "redrive destinations get payments");
  command.action((name: string, flags: ClientFlags) =>
    callService(terminal, flags, async (client) => {
      const destination = await client.getDestination(name);
      return { json: destination, text: (style) => detailLines(destination, style) };
    }),
  );
}

function addSet(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("set <name> <file>")
    .description("Replace the document of a destination. Use - for standard input.")
    .option("--dry-run", "only show what would change");
  addServiceFlags(command);
  addExamples(
    command,
    "redrive destinations set payments payments.json",
    "redrive destinations set payments payments.json --dry-run",
  );
  command.action((name: string, file: string, flags: SetFlags) =>
    callService(terminal, flags, async (client) => {
      const document = documentOf(readJson(file), file);
      return replace(client, name, document, flags.dryRun ?? false);
    }),
  );
}

function addEdit(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("edit <name>")
    .description("Edit the document of a destination in $VISUAL or $EDITOR.");
  addServiceFlags(command);
  addExamples(command, "EDITOR=nano redrive destinations edit payments");
  command.action((name: string, flags: ClientFlags) =>
    callService(terminal, flags, async (client) => {
      const edited = editText(`${jsonLines(await currentDocument(client, name)).join("\n")}\n`);
      return replace(client, name, documentOf(parseEdited(edited), "the document"), false);
    }),
  );
}

async function replace(
  client: Client,
  name: string,
  document: Document,
  dryRun: boolean,
): Promise<Presentation> {
  const before = await currentDocument(client, name);
  const lines = changeLines(before, document);
  if (lines.length === 0) {
    return { json: { before, document, changes: false }, text: () => [`${name} is unchanged.`] };
  }
  const known = knownDocument({ ...document });
  const notes = known.problems.length === 0 ? await lintNotes(known.document) : [];
  if (dryRun) {
    if (known.problems.length > 0) throw new DocumentError("INVALID_DESTINATION", known.problems);
    const text = [`${name} would change:`, ...lines];
    const allNotes = [...known.unknown.map(unknownNote), ...notes];
    return { json: { before, document, changes: true }, text: () => text, notes: allNotes };
  }
  // The service decides whether the document is valid. It may know more fields than this version.
  const destination = await client.configureDestination(name, document);
  return { json: destination, text: () => [`${name} is changed:`, ...lines], notes };
}

/** What lint says about a document that is valid but may not protect the target. */
async function lintNotes(document: Document): Promise<readonly string[]> {
  // Loaded only here, because most commands do not need the simulator.
  const { lint } = await import("@redrive/simulator");
  const findings = lint(serviceGuards(document), { waits: "job" });
  return findings.map(({ severity, id, field, sentence, fix }) => {
    return `${severity} ${id} (${field}): ${sentence} ${fix}`;
  });
}

function unknownNote({ message }: FieldProblem): string {
  return `${message} (This version does not know it. The service refuses it unless it is newer.)`;
}

/** Empty for a destination that has no document, or that no task has used yet. */
async function currentDocument(client: Client, name: string): Promise<object> {
  try {
    const { document } = await client.getDestination(name);
    return isObject(document) ? document : {};
  } catch (error) {
    const isNew = error instanceof RedriveError && error.code === NOT_FOUND;
    if (isNew) return {};
    throw error;
  }
}

/** A code of the service. The type of core's codes does not list it. */
const NOT_FOUND: string = "NOT_FOUND";

/** One line per top-level field that differs. */
export function changeLines(before: object, after: object): readonly string[] {
  const valueIn = (document: object, field: string) =>
    JSON.stringify((document as Readonly<Record<string, unknown>>)[field]) ?? "(default)";
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return fields
    .filter((field) => valueIn(before, field) !== valueIn(after, field))
    .map((field) => `  ${field}: ${valueIn(before, field)} -> ${valueIn(after, field)}`);
}

function documentOf(read: unknown, source: string): Document {
  if (isObject(read)) return read as Document;
  throw new RedriveError("INVALID_DESTINATION", `${source} must be an object, got ${quote(read)}`);
}

/** Opens the editor on a temporary file and returns what the user saved. */
function editText(text: string): string {
  const editor = process.env["VISUAL"] || process.env["EDITOR"] || "vi";
  const folder = mkdtempSync(join(tmpdir(), "redrive-edit-"));
  const file = join(folder, "destination.json");
  try {
    writeFileSync(file, text);
    // The variable may contain arguments, as in `code --wait`.
    const { status, error } = spawnSync(`${editor} "${file}"`, { shell: true, stdio: "inherit" });
    if (status === 0) return readFileSync(file, "utf8");
    const problem = error?.message ?? `it exited with ${status}`;
    throw new RedriveError("INVALID_ARGUMENT", `the editor ${quote(editor)} failed: ${problem}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function parseEdited(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = `nothing was changed: the edited document must be JSON: ${(cause as Error).message}`;
    throw causedError("INVALID_ARGUMENT", message, cause);
  }
}

function detailLines(destination: Destination, { paint }: TextStyle): readonly string[] {
  const now = systemClock.now();
  const { name, tasks, backlog, latency, concurrency, document, pausedAt } = destination;
  const state = stateOf(destination, now);
  const fields: readonly (readonly [string, string])[] = [
    ["state", paint(state.tone, state.text)],
    ...(pausedAt === null ? [] : [["paused", formatAgo(pausedAt, now)] as const]),
    ["backlog", formatInteger(backlog)],
    ["dead", formatInteger(tasks["EXHAUSTED"] ?? 0)],
    ...(concurrency === null
      ? []
      : [["in flight", `${concurrency.inFlight} of ${concurrency.limit}`] as const]),
    ...(latency === null
      ? []
      : [
          [
            "latency",
            `${formatDuration(latency.p50Ms)} median, ${formatDuration(latency.p99Ms)} p99`,
          ] as const,
        ]),
  ];
  return [
    paint("strong", name),
    ...fields.map(([label, text]) => `${label.padEnd(13)}${text}`),
    "",
    ...(document === null
      ? ["It has no document: all defaults apply."]
      : jsonLines(document as object)),
  ];
}
