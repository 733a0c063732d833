/**
 * Sql: runs statements on a pool of connections. Each call ends within the time of a store's call:
 * a connection that does not respond is closed, and the outcome of its statement is unknown.
 *
 * The pool may be behind a pooler in transaction mode, so a connection keeps no state between
 * transactions: no settings, no named statements.
 */
import { type Clock, invalidArgument, messageOf, systemClock } from "@redrive/core";
import type { Client, Pool, PoolClient } from "pg";
import { STORE_CALL_MS } from "../../../model/store.ts";
import { StoreFullError, StoreRefusedError } from "../../../model/store-errors.ts";

/** Transactions that met are repeated this often. */
const MAX_REPEATS = 3;

/** Less than a call of a store, so that the server's own error arrives in time. */
const CALL_MS = STORE_CALL_MS - 250;
const STATEMENT_MS = STORE_CALL_MS - 1000;

export type Rows = readonly (readonly Cell[])[];
export type Run = (sql: string, params?: readonly Param[]) => Promise<Rows>;

/** Runs several statements without parameters, separated by semicolons. */
export type Script = (sql: string) => Promise<unknown>;

export interface Sql {
  /** The schema of the tables, and that of the functions which this program calls. */
  readonly schema: string;
  readonly functions: string;
  /** Of the functions. */
  readonly version: number;
  /** One statement, in its own transaction. Repeated if it met another transaction. */
  readonly run: Run;
  /** Reads in one read-only transaction, with a limit on the time of each statement. */
  read<T>(work: (run: Run) => Promise<T>): Promise<T>;
  /** Several statements in one transaction, as a migration. Not limited in time. */
  transaction<T>(work: (run: Run, script: Script) => Promise<T>): Promise<T>;
}

/** `version`: of the functions. */
export function createSql(
  pool: Pool,
  schema: string,
  version: number,
  clock: Clock = systemClock,
): Sql {
  const functions = functionsSchema(schema, version);
  const runOn =
    (client: PoolClient): Run =>
    async (sql, params = []) => {
      const text = inSchema(schema, functions, sql);
      const values: unknown[] = [];
      for (const param of params) values.push(typeof param === "number" ? param : paramOf(param));
      const types = CELL_TYPES as never;
      const query = { text, values, types, rowMode: "array" as const };
      return (await client.query<Cell[]>(query)).rows;
    };
  const abandoned = new AbandonedCalls(pool, clock);
  const within = <T>(work: (client: PoolClient) => Promise<T>, endMs = endOf(clock)) =>
    withClient({ pool, clock, abandoned }, work, endMs);
  return {
    schema,
    functions,
    version,
    run(sql, params) {
      const endMs = endOf(clock);
      return repeated(() => within((client) => runOn(client)(sql, params), endMs));
    },
    read: (work) =>
      within(async (client) => {
        await client.query(`BEGIN READ ONLY; SET LOCAL statement_timeout = ${STATEMENT_MS}`);
        const result = await work(runOn(client));
        await client.query("COMMIT");
        return result;
      }),
    async transaction(work) {
      const client = await pool.connect();
      let failure: unknown;
      try {
        await client.query("BEGIN");
        const script = (text: string) => client.query(inSchema(schema, functions, text));
        const result = await work(runOn(client), script);
        await client.query("COMMIT");
        return result;
      } catch (error) {
        failure = error;
        throw error;
      } finally {
        client.release(failure !== undefined);
      }
    },
  };
}

function paramOf(param: Param): unknown {
  if (typeof param === "string") return storedText(param);
  if (Array.isArray(param)) return param.map(paramOf);
  if (param instanceof Uint8Array) return Buffer.from(param.buffer, param.byteOffset, param.length);
  return param;
}

async function repeated<T>(work: () => Promise<T>): Promise<T> {
  for (let repeats = 0; ; repeats++) {
    try {
      return await work();
    } catch (error) {
      if (repeats >= MAX_REPEATS || !isConflict(error)) throw storeError(error);
    }
  }
}

/** When a call that starts now must have ended. */
function endOf(clock: Clock): number {
  return clock.monotonicMs() + CALL_MS;
}

interface ClientParts {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly abandoned: AbandonedCalls;
}

/** A connection with an error, or one that does not respond in time, is closed. */
async function withClient<T>(
  { pool, clock, abandoned }: ClientParts,
  work: (client: PoolClient) => Promise<T>,
  endMs: number,
): Promise<T> {
  if (abandoned.areMany()) await abandoned.assertFew();
  const client = await pool.connect();
  let isReleased = false;
  const release = (error?: Error) => {
    if (!isReleased) client.release(error);
    isReleased = true;
  };
  const leftMs = Math.max(1, endMs - clock.monotonicMs());
  const late = new Error(`PostgreSQL did not respond within ${CALL_MS} ms`);
  const abandon = () => {
    abandoned.add(client);
    release(late);
  };
  const cancel = clock.alarm(leftMs, abandon, true);
  try {
    const result = await work(client);
    release();
    return result;
  } catch (error) {
    release(error instanceof Error ? error : new Error(String(error)));
    throw error;
  } finally {
    cancel();
  }
}

// Pool: opens the connections of a PostgreSQL store. The driver is loaded only here, so a process
// without such a store does not load it.

export interface PoolOptions {
  /** Connections at once. Default: `connections` of the URL. */
  readonly maxConnections?: number;
}

/** A connection must be free, or open, within this time. */
const CONNECT_MS = 3000;
const IDLE_MS = 30_000;
const KEEP_ALIVE_MS = 5000;

/** The driver reports the loss of an idle connection here; the next statement opens another. */
const ignoreLoss = () => {};

export async function openPool(url: string, maxConnections: number): Promise<Pool> {
  const { default: pg } = await import("pg");
  const pool = new pg.Pool({ ...settingsOf(url), max: maxConnections });
  pool.on("error", ignoreLoss);
  // A connection that is in use reports its loss to the statement, and here as well.
  pool.on("connect", (client) => client.on("error", ignoreLoss));
  return pool;
}

/** A single connection that is not shared, not yet connected. */
export async function openClient(url: string): Promise<Client> {
  const { default: pg } = await import("pg");
  return new pg.Client(settingsOf(url));
}

function settingsOf(url: string) {
  return {
    connectionString: url,
    connectionTimeoutMillis: CONNECT_MS,
    idleTimeoutMillis: IDLE_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    application_name: "redrive",
    allowExitOnIdle: true,
  };
}

// Failure: classifies errors of PostgreSQL by their SQLSTATE, and decides which statements are
// repeated. An error without one is a lost connection: the outcome of its statement is unknown.

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const DISK_FULL = "53100";
const SERIALIZATION_FAILURE = "40001";
const DEADLOCK_DETECTED = "40P01";
/** The content of a statement is the cause: bad data, a constraint, or a limit of the server. */
const REFUSALS = ["22", "23", "54"];
/** Raised by `commit_batch`: the partition of the day does not exist. */
export const NO_ATTEMPT_DAY = "RD001";
/** A table, a schema or a function does not exist. */
export const MISSING = ["42P01", "3F000", "42883"] as const;
export const LOCK_TIMEOUT = "55P03";

/** The SQLSTATE of an error; empty without one. */
export function sqlState(error: unknown): string {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/u.test(code) ? code : "";
}

/** The error to reject with. */
export function storeError(error: unknown): unknown {
  const state = sqlState(error);
  const text = messageOf(error);
  if (state === DISK_FULL) {
    return new StoreFullError(`no space left for PostgreSQL: ${text}`, { cause: error });
  }
  if (REFUSALS.includes(state.slice(0, 2))) {
    return new StoreRefusedError(`PostgreSQL refuses an item: ${text}`, { cause: error });
  }
  if ((MISSING as readonly string[]).includes(state)) {
    // A started node has seen all of them.
    const cause = "a newer version of Redrive has upgraded the database, or its schema was removed";
    return new Error(`${cause}: restart this node with that version (${text})`, { cause: error });
  }
  return error;
}

/** Two transactions met, and the server rolled this one back. */
export function isConflict(error: unknown): boolean {
  return [SERIALIZATION_FAILURE, DEADLOCK_DETECTED].includes(sqlState(error));
}

// Abandoned calls: those that took too long. Their connection is closed here, but the server may go on
// with them, for example while a commit waits for a synchronous standby that is away. Each keeps one of
// the server's connections, so a node makes no more calls while too many of them are left.

/** The server is asked this often which of them have ended. */
const CHECK_MS = 1000;
const CHECK_CALL_MS = 2000;

const LIVING = "SELECT pid FROM pg_stat_activity WHERE pid = ANY ($1::int[])";

class AbandonedCalls {
  readonly #pool: Pool;
  readonly #clock: Clock;
  /** The numbers of the server's processes. Those of a pooler are unknown to the server. */
  #pids: ReadonlySet<number> = new Set();
  #checkedMs = Number.NEGATIVE_INFINITY;
  #checking: Promise<void> | undefined;

  constructor(pool: Pool, clock: Clock) {
    this.#pool = pool;
    this.#clock = clock;
  }

  add(client: PoolClient): void {
    const { processID } = client as unknown as { readonly processID?: number | null };
    if (typeof processID === "number") this.#pids = new Set([...this.#pids, processID]);
  }

  /** As many as the pool has connections, as far as this node knows. */
  areMany(): boolean {
    return this.#pids.size >= (this.#pool.options.max ?? 1);
  }

  /** Asks the server which of them have ended. Rejects if there are still many. */
  async assertFew(): Promise<void> {
    if (this.#clock.monotonicMs() >= this.#checkedMs + CHECK_MS) {
      this.#checking ??= this.#check().finally(() => {
        this.#checking = undefined;
        this.#checkedMs = this.#clock.monotonicMs();
      });
      await this.#checking;
    }
    if (!this.areMany()) return;
    const text = `${this.#pids.size} calls hang on the PostgreSQL server`;
    throw new Error(`${text}: no more are made until they end`);
  }

  /** If the server does not respond, nothing is known. */
  async #check(): Promise<void> {
    let release: (isBroken: boolean) => void = () => {};
    try {
      const client = await this.#pool.connect();
      let isReleased = false;
      release = (isBroken) => {
        if (!isReleased) client.release(isBroken);
        isReleased = true;
      };
      const cancel = this.#clock.alarm(CHECK_CALL_MS, () => release(true), true);
      const { rows } = await client.query<{ pid: number }>(LIVING, [[...this.#pids]]);
      cancel();
      this.#pids = new Set(rows.map(({ pid }) => pid));
      release(false);
    } catch {
      release(true);
    }
  }
}

// Values: the values of rows as the driver reads and writes them, texts that PostgreSQL can store,
// arrays in the binary format, and cursors.

// Cells: the values of rows. The driver passes every value as text, so these parsers make the values
// of the types that our statements return.

export type Cell = string | number | boolean | Uint8Array | null;

/** A parameter of a statement. Texts are made storable; bytes are sent as they are. */
export type Param = Cell | readonly (string | number)[] | undefined;

type Parser = (text: string) => Cell;

/** Numbers of types, from `pg_type`. */
const BOOL = 16;
const BYTEA = 17;
const INT8 = 20;
const INT2 = 21;
const INT4 = 23;
const FLOAT8 = 701;

const PARSERS: ReadonlyMap<number, Parser> = new Map<number, Parser>([
  [BOOL, (text) => text === "t"],
  [BYTEA, bytesOf],
  [INT8, Number],
  [INT2, Number],
  [INT4, Number],
  [FLOAT8, Number],
]);

/** For the driver: the parser of each type. Everything else is text. */
export const CELL_TYPES = {
  getTypeParser(type: number): Parser {
    return PARSERS.get(type) ?? originalText;
  },
};

const BACKSLASH = 0x5c;

/**
 * Bytes in one of PostgreSQL's formats: hexadecimal after a prefix, or the bytes themselves with escapes
 * for some of them, which is shorter for most bodies.
 */
function bytesOf(text: string): Uint8Array {
  if (text.startsWith("\\x")) {
    // A copy: a small buffer is a part of a larger one, which it would keep.
    return new Uint8Array(Buffer.from(text.slice(2), "hex"));
  }
  const bytes = new Uint8Array(text.length);
  Buffer.from(bytes.buffer).write(text, "latin1");
  return text.includes("\\") ? unescaped(bytes) : bytes;
}

/** A backslash is written twice; three octal digits follow it for a byte that is not ASCII, or 0. */
function unescaped(bytes: Uint8Array): Uint8Array {
  let length = 0;
  const digit = (at: number) => (bytes[at] ?? 0) & 7;
  for (let at = 0; at < bytes.length; length++) {
    if (bytes[at] !== BACKSLASH) bytes[length] = bytes[at++] ?? 0;
    else if (bytes[at + 1] === BACKSLASH) {
      bytes[length] = BACKSLASH;
      at += 2;
    } else {
      bytes[length] = digit(at + 1) * 64 + digit(at + 2) * 8 + digit(at + 3);
      at += 4;
    }
  }
  return bytes.slice(0, length);
}

// Stored text: makes every JavaScript string storable. PostgreSQL has no NUL in text, so NUL is
// written as U+0001 and "0", and U+0001 as U+0001 and "1". This keeps the order of texts.
// Half of a surrogate pair is replaced, as in every UTF-8 encoder.

const ESCAPE = "\u0001";

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to escape.
const ESCAPED = /[\0\u0001]/gu;
const HALF_PAIR = /\p{Surrogate}/gu;
/** Escapes in JSON text that the server may not accept. */
const SUSPECT = /\\u(?:000[01]|d[89a-f])/u;

/** The text to store. */
export function storedText(text: string): string {
  if (!text.includes("\0") && !text.includes(ESCAPE)) return text;
  return text.replace(ESCAPED, (one) => `${ESCAPE}${one === ESCAPE ? "1" : "0"}`);
}

/** The text that was stored. */
export function originalText(text: string): string {
  if (!text.includes(ESCAPE)) return text;
  return text.replaceAll(`${ESCAPE}0`, "\0").replaceAll(`${ESCAPE}1`, ESCAPE);
}

/** JSON in which every text is storable. */
export function storedJson(value: unknown): string {
  const json = JSON.stringify(value);
  if (!SUSPECT.test(json)) return json;
  return JSON.stringify(value, (_, one) =>
    typeof one === "string" ? storedText(one).replace(HALF_PAIR, "\uFFFD") : one,
  );
}

/** The value of JSON that the server has made of stored texts. */
export function originalJson<T>(json: string): T {
  if (!json.includes("\\u0001")) return JSON.parse(json) as T;
  return JSON.parse(json, (_, one) => (typeof one === "string" ? originalText(one) : one)) as T;
}

// Binary array: an array parameter in PostgreSQL's binary format. For hundreds of items, both sides
// handle it several times faster than JSON. https://www.postgresql.org/docs/current/protocol.html does
// not describe it: it is what `array_send` of the server writes.

/** Numbers of the types of elements, from `pg_type`. */
const INT8_ELEMENT = 20;
const TEXT = 25;
const BYTEA_ELEMENT = 17;

/** The number of dimensions, whether there are nulls, the type, the number of elements, the first index. */
const HEAD_BYTES = 20;
const LENGTH_BYTES = 4;
const NULL_LENGTH = -1;
const TWO_32 = 2 ** 32;

const FIRST_SIZE = 65_536;
/** A larger buffer is not kept for the next array. */
const MAX_KEPT_SIZE = 4_194_304;

let buffer = Buffer.allocUnsafe(FIRST_SIZE);
let length = 0;

/** Throws if a value is not a whole number that a double holds exactly. */
export function int8Array(values: readonly (number | null)[]): Uint8Array {
  begin(INT8_ELEMENT, values.length);
  reserve(values.length * (LENGTH_BYTES + 8));
  for (const value of values) {
    if (value === null) writeLength(NULL_LENGTH);
    else {
      if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is not a whole number`);
      writeLength(8);
      buffer.writeInt32BE(Math.floor(value / TWO_32), length);
      buffer.writeUInt32BE(value >>> 0, length + 4);
      length += 8;
    }
  }
  return written();
}

/** The texts are made storable. */
export function textArray(values: readonly (string | null)[]): Uint8Array {
  begin(TEXT, values.length);
  for (const value of values) {
    if (value === null) {
      reserve(LENGTH_BYTES);
      writeLength(NULL_LENGTH);
    } else writeText(storedText(value));
  }
  return written();
}

export function byteaArray(values: readonly (Uint8Array | null)[]): Uint8Array {
  begin(BYTEA_ELEMENT, values.length);
  for (const value of values) {
    reserve(LENGTH_BYTES + (value?.length ?? 0));
    writeLength(value?.length ?? NULL_LENGTH);
    if (value === null) continue;
    buffer.set(value, length);
    length += value.length;
  }
  return written();
}

function begin(type: number, count: number): void {
  length = HEAD_BYTES;
  buffer.writeInt32BE(1, 0);
  buffer.writeInt32BE(1, 4);
  buffer.writeInt32BE(type, 8);
  buffer.writeInt32BE(count, 12);
  buffer.writeInt32BE(1, 16);
}

function writeLength(bytes: number): void {
  buffer.writeInt32BE(bytes, length);
  length += LENGTH_BYTES;
}

function writeText(text: string): void {
  // A UTF-16 unit takes at most three bytes in UTF-8.
  reserve(LENGTH_BYTES + 3 * text.length);
  const bytes = buffer.write(text, length + LENGTH_BYTES);
  writeLength(bytes);
  length += bytes;
}

function reserve(bytes: number): void {
  if (length + bytes <= buffer.length) return;
  const larger = Buffer.allocUnsafe(Math.max(buffer.length * 2, length + bytes));
  buffer.copy(larger, 0, 0, length);
  buffer = larger;
}

/** A copy: the buffer is used for the next array. */
function written(): Uint8Array {
  const copy = Buffer.from(buffer.subarray(0, length));
  if (buffer.length > MAX_KEPT_SIZE) buffer = Buffer.allocUnsafe(FIRST_SIZE);
  return copy;
}

// Cursors: positions of several texts, for callers to whom a cursor is opaque.

export function cursorText(cells: readonly Cell[]): string {
  return JSON.stringify(cells);
}

/** Empty at the beginning. */
export function cursorTexts(cursor: string | undefined): readonly string[] {
  return cursor === undefined ? [] : (JSON.parse(cursor) as readonly string[]);
}

// Address: reads the URL of a PostgreSQL store. The parameters `schema`, `durability` and
// `connections` are ours and are removed; all others belong to the driver.

export interface Address {
  /** For the driver. */
  readonly url: string;
  /** The schema that contains the tables. */
  readonly schema: string;
  /** `relaxed`: a crash of the machine may lose or damage what was acknowledged. Default: `strict`. */
  readonly durability: "strict" | "relaxed";
  /** Connections of this node at once, besides the one that hears wake-ups. 2 to 100. Default: 10. */
  readonly connections: number;
}

const DEFAULT_CONNECTIONS = 10;

const DEFAULT_SCHEMA = "redrive";

/** Names that need no quotes in SQL; a name that is too long would be cut. */
const SCHEMA_NAME = /^[a-z_][a-z0-9_]{0,49}$/u;

export function isPostgresUrl(text: string): boolean {
  return /^postgres(?:ql)?:\/\/./u.test(text);
}

/** Throws `INVALID_ARGUMENT`. Messages never quote the URL, which may contain a password. */
export function readAddress(text: string): Address {
  if (!isPostgresUrl(text) || !URL.canParse(text)) {
    throw invalidArgument(
      "the store must be postgres://USER:PASSWORD@HOST:PORT/DATABASE",
      text.slice(0, text.indexOf(":") + 1),
    );
  }
  const url = new URL(text);
  const schema = url.searchParams.get("schema") ?? DEFAULT_SCHEMA;
  const durability = url.searchParams.get("durability") ?? "strict";
  url.searchParams.delete("schema");
  url.searchParams.delete("durability");
  const connections = readConnections(url.searchParams.get("connections"));
  url.searchParams.delete("connections");
  if (!SCHEMA_NAME.test(schema) || schema.startsWith("pg_")) {
    throw invalidArgument("schema must be a name of lowercase letters, digits and _", schema);
  }
  if (durability !== "strict" && durability !== "relaxed") {
    throw invalidArgument("durability must be strict or relaxed", durability);
  }
  return { url: url.href, schema, durability, connections };
}

function readConnections(text: string | null): number {
  if (text === null) return DEFAULT_CONNECTIONS;
  const count = /^\d{1,3}$/u.test(text) ? Number(text) : Number.NaN;
  if (count >= 2 && count <= 100) return count;
  throw invalidArgument("connections must be a whole number from 2 to 100", text);
}

/** The schema that contains the functions of one version of the tables' schema. */
export function functionsSchema(schema: string, version: number): string {
  return `${schema}_v${version}`;
}

/** Gives the tables and functions in a statement their schemas. Statements are written for the default. */
export function inSchema(schema: string, functions: string, sql: string): string {
  const text = sql.replaceAll("redrive_functions.", `${functions}.`);
  return schema === DEFAULT_SCHEMA ? text : text.replaceAll(`${DEFAULT_SCHEMA}.`, `${schema}.`);
}
