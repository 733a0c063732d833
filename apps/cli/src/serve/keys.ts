/**
 * `redrive keys`: creates, lists and revokes API keys. The keys are in a file next to the store, so
 * the service need not run. A key is shown once; the file contains only its hash.
 */
import { formatDuration, quote, RedriveError, systemBytes, systemClock } from "@redrive/core";
import type { KeyLimits, KeyRecord, KeyStore, Scope } from "@redrive/service/http";
import type { Command } from "commander";
import { formatAgo } from "../terminal/event-text.ts";
import { addExamples, durationFlag, integerFlag } from "../terminal/flags.ts";
import {
  addOutputFlags,
  FAILED,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../terminal/presentation.ts";
import { table } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { addStoreFlag } from "./serve.ts";

interface KeyFlags extends OutputOptions {
  readonly store?: string;
}

interface AddFlags extends KeyFlags {
  readonly name?: string;
  readonly tenant: string;
  readonly scopes: string;
  readonly expires?: number;
  readonly rate?: number;
  readonly atOnce?: number;
  readonly maxWaiting?: number;
  readonly targets?: string;
}

export function addKeys(parent: Command, terminal: Terminal): void {
  const keys = parent
    .command("keys")
    .description("Create, list and revoke the API keys of a service.");
  addAdd(keys, terminal);
  addList(keys, terminal);
  addRevoke(keys, terminal);
}

function addAdd(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("add")
    .description("Create a key. It is shown only once.")
    .option("--name <text>", "a name for the key")
    .option("--tenant <id>", "tenant whose tasks the key can access", "default")
    .option("--scopes <list>", "comma-separated scopes of the key", "admin")
    .option(
      "--expires <duration>",
      "lifetime of the key, such as 720h (default: no limit)",
      durationFlag,
    )
    .option("--rate <perSecond>", "maximum requests per second", integerFlag(1, 1_000_000))
    .option("--at-once <count>", "maximum concurrent requests", integerFlag(1, 1_000_000))
    .option(
      "--max-waiting <count>",
      "refuse new tasks while this many tasks are waiting",
      integerFlag(1, 1e12),
    )
    .option(
      "--targets <list>",
      "the only targets of tasks made with this key: cidr[:port] or name[:port], comma-separated",
    );
  addOutputFlags(addStoreFlag(command, "sqlite:PATH"), "json");
  addExamples(
    command,
    "redrive keys add --name ops",
    "redrive keys add --name shop --scopes tasks:create,tasks:read",
    "redrive keys add --name crm --scopes tasks:create --targets hooks.example.com --rate 50",
  );
  command.action((flags: AddFlags) => presentResult(terminal, flags, () => presentNew(flags)));
}

/** Loads the key modules only here, because they load the web server. */
async function openKeyFile({ store }: KeyFlags): Promise<{ keys: KeyStore; path: string }> {
  const { DEFAULT_STORE, keyFilePath } = await import("./service-config.ts");
  const { fileKeyStore } = await import("@redrive/service/http");
  const path = keyFilePath(store ?? DEFAULT_STORE);
  if (path !== undefined) return { keys: fileKeyStore(path, systemClock), path };
  const message =
    "only a SQLite store has a key file: set REDRIVE_API_KEY, or use --store sqlite:PATH";
  throw new RedriveError("INVALID_ARGUMENT", message);
}

async function presentNew(flags: AddFlags): Promise<Presentation> {
  const { createKey, SCOPES } = await import("@redrive/service/http");
  const { keys, path } = await openKeyFile(flags);
  const now = systemClock.now();
  const isFirst = keys.list().length === 0;
  const { key, record } = createKey((bytes) => bytes.set(systemBytes(bytes.length)), {
    tenantId: flags.tenant,
    scopes: parseScopes(flags.scopes, SCOPES),
    now,
    ...(flags.name !== undefined && { name: flags.name }),
    ...(flags.expires !== undefined && { expiresAt: now + flags.expires }),
    ...keyLimits(flags),
  });
  keys.add(record);
  return {
    json: { key, ...withoutSecret(record) },
    text: () => [key],
    notes: [
      `the key is shown only now; send it as "Authorization: Bearer ...", or set REDRIVE_API_KEY; ${path} has its hash`,
      ...(isFirst
        ? ["this is the first key: a running service requires keys only after its next start"]
        : []),
    ],
  };
}

function keyLimits({ rate, atOnce, maxWaiting, targets }: AddFlags): { limits?: KeyLimits } {
  const limits = {
    ...(rate !== undefined && { requestsPerSecond: rate }),
    ...(atOnce !== undefined && { requestsAtOnce: atOnce }),
    ...(maxWaiting !== undefined && { maxWaiting }),
    ...(targets !== undefined && { targets }),
  };
  return Object.keys(limits).length === 0 ? {} : { limits };
}

function parseScopes(text: string, known: readonly Scope[]): readonly Scope[] {
  const scopes = text.split(",").map((one) => one.trim());
  const wrong = scopes.find((one) => !known.includes(one as Scope));
  if (wrong === undefined) return scopes as Scope[];
  const message = `--scopes must be some of ${known.join(", ")}; got ${quote(wrong)}`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

function addList(parent: Command, terminal: Terminal): void {
  const command = parent.command("ls").description("List keys without their secrets.");
  addOutputFlags(addStoreFlag(command, "sqlite:PATH"), "json");
  addExamples(command, "redrive keys ls");
  command.action((flags: KeyFlags) => presentResult(terminal, flags, () => presentAll(flags)));
}

const COLUMNS = [
  { head: "id" },
  { head: "name" },
  { head: "tenant" },
  { head: "scopes", wraps: true },
  { head: "created" },
  { head: "expires" },
  { head: "limits", wraps: true },
] as const;

async function presentAll(flags: KeyFlags): Promise<Presentation> {
  const { keys, path } = await openKeyFile(flags);
  const now = systemClock.now();
  const rows = keys.list().map((record) => rowOf(record, now));
  return {
    json: { keys: keys.list().map(withoutSecret) },
    text: (style) =>
      rows.length === 0 ? [`There are no keys in ${path}.`] : table(COLUMNS, rows, style),
  };
}

function rowOf(record: KeyRecord, now: number): readonly string[] {
  const { keyId, name, tenantId, scopes, createdAt, expiresAt } = record;
  return [
    keyId,
    name,
    tenantId,
    scopes.join(", "),
    formatAgo(createdAt, now),
    expiryText(expiresAt, now),
    limitsText(record.limits),
  ];
}

function limitsText({ requestsPerSecond, requestsAtOnce, maxWaiting, targets }: KeyLimits = {}) {
  const limits = [
    requestsPerSecond && `${requestsPerSecond}/s`,
    requestsAtOnce && `${requestsAtOnce} at once`,
    maxWaiting && `${maxWaiting} waiting`,
    targets && `to ${targets}`,
  ];
  return limits.filter(Boolean).join(", ");
}

function expiryText(expiresAt: number | null, now: number): string {
  if (expiresAt === null) return "never";
  return expiresAt <= now ? "expired" : `in ${formatDuration(expiresAt - now)}`;
}

function withoutSecret({ secretHash: _, ...shown }: KeyRecord): Omit<KeyRecord, "secretHash"> {
  return shown;
}

function addRevoke(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("revoke <keyId>")
    .description("Revoke a key. A running service stops accepting it within a second.");
  addOutputFlags(addStoreFlag(command, "sqlite:PATH"), "json");
  addExamples(command, "redrive keys revoke 3f9a1c20b7de");
  command.action((keyId: string, flags: KeyFlags) =>
    presentResult(terminal, flags, async () => {
      const { keys, path } = await openKeyFile(flags);
      const revoked = keys.revoke(keyId);
      const text = revoked ? `${keyId} is revoked.` : `There is no key ${quote(keyId)} in ${path}.`;
      return { json: { keyId, revoked }, text: () => [text], exitCode: revoked ? 0 : FAILED };
    }),
  );
}
