/**
 * `redrive keys`: who may call a service. Keys are in a file beside its store, so that they can be
 * made before it starts and while it runs; a key is shown once, and only its hash is kept.
 */
import { quote, RedriveError, systemBytes, systemClock } from "@redrive/core";
import type { KeyLimits, KeyRecord, KeyStore, Scope } from "@redrive/service/http";
import { formatDuration } from "@redrive/simulator/words";
import type { Command } from "commander";
import { addExamples, spanFlag, wholeFlag } from "../flags.ts";
import {
  addOutput,
  FAILED,
  finish,
  type OutputOptions,
  type Presentation,
} from "../presentation.ts";
import type { Screen } from "../screen.ts";
import { agoWords } from "../task-text.ts";
import { table } from "../terminal/table.ts";
import { addStore } from "./serve.ts";

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
  readonly mostWaiting?: number;
  readonly targets?: string;
}

export function addKeys(parent: Command, screen: Screen): void {
  const keys = parent.command("keys").description("make, list, revoke API keys of a service");
  addAdd(keys, screen);
  addList(keys, screen);
  addRevoke(keys, screen);
}

function addAdd(parent: Command, screen: Screen): void {
  const command = parent
    .command("add")
    .description("make a key; it is shown once")
    .option("--name <text>", "whose it is, for people")
    .option("--tenant <id>", "whose tasks it sees", "default")
    .option("--scopes <list>", "what it may do, commas between", "admin")
    .option("--expires <span>", "not accepted any more after this, such as 720h", spanFlag)
    .option("--rate <perSecond>", "requests a second at most", wholeFlag(1, 1_000_000))
    .option("--at-once <count>", "requests under way at most", wholeFlag(1, 1_000_000))
    .option("--most-waiting <count>", "hands over no more while so many wait", wholeFlag(1, 1e12))
    .option("--targets <list>", "its tasks go there only: cidr[:port] or name[:port], commas");
  addOutput(addStore(command), "json");
  addExamples(
    command,
    "redrive keys add --name ops",
    "redrive keys add --name shop --scopes tasks:create,tasks:read",
    "redrive keys add --name crm --scopes tasks:create --targets hooks.example.com --rate 50",
  );
  command.action((flags: AddFlags) => finish(screen, flags, () => presentNew(flags)));
}

/** The book and what it needs are loaded only here: they bring the web server along. */
async function bookOf({ store }: KeyFlags): Promise<{ book: KeyStore; path: string }> {
  const { keyFileOf } = await import("../key-books.ts");
  const { DEFAULT_STORE } = await import("../service-config.ts");
  const { fileKeyStore } = await import("@redrive/service/http");
  const path = keyFileOf(store ?? DEFAULT_STORE);
  if (path !== undefined) return { book: fileKeyStore(path, systemClock), path };
  const message =
    "a store in memory has no file for keys: set REDRIVE_API_KEY, or use --store sqlite:PATH";
  throw new RedriveError("INVALID_ARGUMENT", message);
}

async function presentNew(flags: AddFlags): Promise<Presentation> {
  const { createKey, SCOPES } = await import("@redrive/service/http");
  const { book, path } = await bookOf(flags);
  const now = systemClock.now();
  const isFirst = book.list().length === 0;
  const { key, record } = createKey((bytes) => bytes.set(systemBytes(bytes.length)), {
    tenantId: flags.tenant,
    scopes: scopesOf(flags.scopes, SCOPES),
    now,
    ...(flags.name !== undefined && { name: flags.name }),
    ...(flags.expires !== undefined && { expiresAt: now + flags.expires }),
    ...limitsOf(flags),
  });
  book.add(record);
  return {
    json: { key, ...shownOf(record) },
    text: () => [key],
    notes: [
      `shown only now; send it as "Authorization: Bearer ...", or set REDRIVE_API_KEY; kept as a hash in ${path}`,
      ...(isFirst ? ["the first key: a service that runs asks for it from its next start on"] : []),
    ],
  };
}

function limitsOf({ rate, atOnce, mostWaiting, targets }: AddFlags): { limits?: KeyLimits } {
  const limits = {
    ...(rate !== undefined && { requestsPerSecond: rate }),
    ...(atOnce !== undefined && { requestsAtOnce: atOnce }),
    ...(mostWaiting !== undefined && { maxWaiting: mostWaiting }),
    ...(targets !== undefined && { targets }),
  };
  return Object.keys(limits).length === 0 ? {} : { limits };
}

function scopesOf(text: string, known: readonly Scope[]): readonly Scope[] {
  const scopes = text.split(",").map((one) => one.trim());
  const wrong = scopes.find((one) => !known.includes(one as Scope));
  if (wrong === undefined) return scopes as Scope[];
  const message = `--scopes must be of ${known.join(", ")}; got ${quote(wrong)}`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

function addList(parent: Command, screen: Screen): void {
  const command = parent.command("ls").description("the keys there are, without their secrets");
  addOutput(addStore(command), "json");
  addExamples(command, "redrive keys ls");
  command.action((flags: KeyFlags) => finish(screen, flags, () => presentAll(flags)));
}

const COLUMNS = [
  { head: "id" },
  { head: "name" },
  { head: "tenant" },
  { head: "scopes", gives: true },
  { head: "made" },
  { head: "ends" },
  { head: "limits", gives: true },
] as const;

async function presentAll(flags: KeyFlags): Promise<Presentation> {
  const { book, path } = await bookOf(flags);
  const now = systemClock.now();
  const rows = book.list().map((record) => rowOf(record, now));
  return {
    json: { keys: book.list().map(shownOf) },
    text: (look) =>
      rows.length === 0 ? [`There are no keys in ${path}.`] : table(COLUMNS, rows, look),
  };
}

function rowOf(record: KeyRecord, now: number): readonly string[] {
  const { keyId, name, tenantId, scopes, createdAt, expiresAt } = record;
  return [
    keyId,
    name,
    tenantId,
    scopes.join(", "),
    agoWords(createdAt, now),
    endWords(expiresAt, now),
    limitWords(record.limits),
  ];
}

function limitWords({ requestsPerSecond, requestsAtOnce, maxWaiting, targets }: KeyLimits = {}) {
  const words = [
    requestsPerSecond && `${requestsPerSecond}/s`,
    requestsAtOnce && `${requestsAtOnce} at once`,
    maxWaiting && `${maxWaiting} waiting`,
    targets && `to ${targets}`,
  ];
  return words.filter(Boolean).join(", ");
}

function endWords(expiresAt: number | null, now: number): string {
  if (expiresAt === null) return "never";
  return expiresAt <= now ? "ended" : `in ${formatDuration(expiresAt - now)}`;
}

function shownOf({ secretHash: _, ...shown }: KeyRecord): Omit<KeyRecord, "secretHash"> {
  return shown;
}

function addRevoke(parent: Command, screen: Screen): void {
  const command = parent
    .command("revoke <keyId>")
    .description("accept a key no more; a running service knows within a second");
  addOutput(addStore(command), "json");
  addExamples(command, "redrive keys revoke 3f9a1c20b7de");
  command.action((keyId: string, flags: KeyFlags) =>
    finish(screen, flags, async () => {
      const { book, path } = await bookOf(flags);
      const revoked = book.revoke(keyId);
      const text = revoked ? `${keyId} is revoked.` : `There is no key ${quote(keyId)} in ${path}.`;
      return { json: { keyId, revoked }, text: () => [text], exitCode: revoked ? 0 : FAILED };
    }),
  );
}
