/** `redrive destinations`: lists, shows and changes the destinations of a running service. */

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
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
import { parseJson, readJson } from "../terminal/documents.ts";
import { formatAgo, formatUntil } from "../terminal/event-text.ts";
import { addExamples } from "../terminal/flags.ts";
import { jsonLines, type Presentation } from "../terminal/presentation.ts";
import { type Cell, table } from "../terminal/table.ts";
import type { Terminal, TextStyle } from "../terminal/terminal.ts";
import { addServiceFlags, type ClientFlags, callService } from "./service-client.ts";
import { addPagingFlags, type PagingFlags } from "./tasks.ts";

export function addDestinations(parent: Command, terminal: Terminal): void {
  const destinations = parent
    .command("destinations")
    .description("List, show, configure, pause and resume destinations.");
  addList(destinations, terminal);
  addDestinationDocument(destinations, terminal);
  addChange(destinations, terminal, {
    verb: "pause",
    description: "Stop attempts to a destination until it is resumed.",
    message: (name) => `${name} is paused. Its tasks wait.`,
    call: (client, name) => client.pauseDestination(name),
  });
  addChange(destinations, terminal, {
    verb: "resume",
    description: "Allow attempts to a paused destination again.",
    message: (name) => `${name} is resumed. It starts slowly and speeds up as calls succeed.`,
    call: (client, name) => client.resumeDestination(name),
  });
  addChange(destinations, terminal, {
    verb: "close-breaker",
    description: "Close an open breaker: its tasks are sent again, slowly at first.",
    message: (name) => `The breaker of ${name} is closed. It opens again if calls fail.`,
    call: (client, name) => client.closeBreaker(name),
  });
  addChange(destinations, terminal, {
    verb: "probe",
    description: "Let an open breaker send the next due task as a probe now.",
    message: (name) =>
      `The next due task of ${name} is a probe. If it succeeds, the breaker closes.`,
    call: (client, name) => client.probeDestination(name),
  });
  addEnable(destinations, terminal);
}

function addEnable(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("enable <name> <target-url>")
    .description("Send to a target URL again that responded 410 Gone (disableOnGone).");
  addServiceFlags(command);
  addExamples(command, "redrive destinations enable hooks https://example.com/hooks/42");
  command.action((name: string, targetUrl: string, flags: ClientFlags) =>
    callService(terminal, flags, async (client) => {
      const destination = await client.enableTarget(name, targetUrl);
      return { json: destination, text: () => [`${targetUrl} is enabled.`] };
    }),
  );
}

function addList(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("ls")
    .description("List destinations with their state, backlog and latency.");
  addServiceFlags(command);
  addPagingFlags(command, "destinations");
  addExamples(command, "redrive destinations ls", "redrive destinations ls --limit 250");
  command.action((flags: ClientFlags & PagingFlags) =>
    callService(terminal, flags, async (client) => {
      const { limit, cursor } = flags;
      const query = { limit, ...(cursor !== undefined && { cursor }) };
      return presentAll(await client.listDestinations(query));
    }),
  );
}

const COLUMNS = [
  { head: "destination", cuts: true },
  { head: "state" },
  { head: "backlog", align: "right" },
  { head: "dead", align: "right" },
  { head: "p50", align: "right" },
  { head: "p99", align: "right" },
  { head: "running", align: "right" },
] as const;

function presentAll(list: Awaited<ReturnType<Client["listDestinations"]>>): Presentation {
  const now = systemClock.now();
  const rows = list.destinations.map((one) => rowOf(one, now));
  const { cursor } = list;
  const isEmpty = rows.length === 0 && cursor === null;
  return {
    json: list,
    text: (style) => (isEmpty ? ["There are no destinations yet."] : table(COLUMNS, rows, style)),
    ...(cursor !== null && { notes: [`there may be more; continue with --cursor ${cursor}`] }),
  };
}

function rowOf(one: Destination, now: number): readonly Cell[] {
  const { name, backlog, tasks, latency, concurrency } = one;
  return [
    name,
    stateOf(one, now),
    formatInteger(backlog),
    formatInteger(tasks["EXHAUSTED"] ?? 0),
    latency === null ? "" : formatDuration(latency.p50Ms),
    latency === null ? "" : formatDuration(latency.p99Ms),
    concurrency === null ? "" : `${concurrency.inFlight} of ${concurrency.limit}`,
  ];
}

interface DestinationChange {
  readonly verb: "pause" | "resume" | "close-breaker" | "probe";
  readonly description: string;
  readonly message: (name: string) => string;
  readonly call: (client: Client, name: string) => Promise<Destination>;
}

function addChange(parent: Command, terminal: Terminal, change: DestinationChange): void {
  const command = parent.command(`${change.verb} <name>`).description(change.description);
  addServiceFlags(command);
  addExamples(command, `redrive destinations ${change.verb} https://example.com`);
  command.action((name: string, flags: ClientFlags) =>
    callService(terminal, flags, async (client) => {
      const destination = await change.call(client, name);
      return { json: destination, text: () => [change.message(name)] };
    }),
  );
}

// `redrive destinations get|set|edit`: shows a destination with its document, and changes the
// document. The service validates it. A change shows what it replaces.

type Document = Parameters<Client["configureDestination"]>[1];

interface SetFlags extends ClientFlags {
  readonly dryRun?: boolean;
}

function addDestinationDocument(parent: Command, terminal: Terminal): void {
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
      const read = parseJson(edited, "nothing was changed: the edited document");
      return replace(client, name, documentOf(read, "the document"), false);
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
    const json = { before, document: shown(document), changes: false };
    return { json, text: () => [`${name} is unchanged.`] };
  }
  const known = knownDocument({ ...document });
  const notes = known.problems.length === 0 ? await lintNotes(known.document) : [];
  if (dryRun) {
    if (known.problems.length > 0) throw new DocumentError("INVALID_DESTINATION", known.problems);
    const { policy, policyVersion } = document;
    // Only the service knows which policies exist.
    if (typeof policy === "string")
      await client.getPolicy(policy, policyVersion ? { version: policyVersion } : {});
    const text = [`${name} would change:`, ...lines];
    const allNotes = [...known.unknown.map(unknownNote), ...notes];
    const json = { before, document: shown(document), changes: true };
    return { json, text: () => text, notes: allNotes };
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
function changeLines(before: object, after: object): readonly string[] {
  const valueIn = (document: object, field: string) =>
    JSON.stringify((document as Readonly<Record<string, unknown>>)[field]) ?? "(default)";
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return fields
    .filter((field) => valueIn(before, field) !== valueIn(after, field))
    .map((field) => `  ${field}: ${valueIn(before, field)} -> ${valueIn(shown(after), field)}`);
}

/** A document as it is printed: with a placeholder for each secret, also in a field that is mistyped. */
function shown<T>(value: T, isSecret = false): T {
  if (typeof value === "string") {
    const isPlain = value.startsWith(PLACEHOLDER) || !(isSecret || value.startsWith("whsec_"));
    return isPlain ? value : (`${PLACEHOLDER} (new)` as T);
  }
  if (Array.isArray(value)) return value.map((one) => shown(one, isSecret)) as T;
  if (!isObject(value)) return value;
  const fields = Object.entries(value).map(([name, one]) => {
    return [name, shown(one, isSecret || /secret/iu.test(name))];
  });
  return Object.fromEntries(fields) as T;
}

/** Begins what the service shows instead of a stored secret. */
const PLACEHOLDER = "whsec_***";

function documentOf(read: unknown, source: string): Document {
  if (isObject(read)) return read as Document;
  const got = Array.isArray(read) ? "a list" : `a ${read === null ? "null" : typeof read}`;
  throw new RedriveError("INVALID_DESTINATION", `${source} must be an object, got ${got}`);
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

export type Destination = Awaited<ReturnType<Client["getDestination"]>>;

/** The reason why tasks wait, in the same order of precedence as `explain` for one task. */
export function stateOf(one: Destination, now: number): Exclude<Cell, string> {
  const { pausedAt, breakerState, gateUntil, rateUntil, retryBudget, recent } = one;
  if (pausedAt !== null) return { text: "paused", tone: "warn" };
  if (breakerState !== "CLOSED") {
    return { text: `breaker ${breakerState.toLowerCase()}`, tone: "bad" };
  }
  if (gateUntil > now) {
    return { text: `Retry-After ${formatUntil(gateUntil, now)}`, tone: "warn" };
  }
  if (rateUntil > now) return { text: "rate limited", tone: "warn" };
  if (retryBudget === "empty") return { text: "no retries left", tone: "warn" };
  if (recent.failing) {
    return { text: `failing (${recent.failed} of ${recent.attempts})`, tone: "bad" };
  }
  // Not "open", which means the opposite for a breaker.
  return { text: "ok", tone: "good" };
}
