/**
 * Sealed headers: encrypts the headers of a task that may hold secrets, and decrypts them before an
 * attempt. Their names stay readable. A task needs one encryption, however many headers it has: the
 * values of several headers are sealed together, in the first of them.
 */
import type { Headers, NewTask } from "../model/task.ts";
import { isHarmlessHeader } from "../model/task-headers.ts";
import { type Key, openBytes, SEALED, type Sealer, sealValue } from "./encryption-keys.ts";

/**
 * Marks the value that holds the values of several headers: its own, and those of all headers with the
 * value `SEALED`. Ids of keys are hexadecimal, so no value that is sealed alone starts like this.
 */
const TOGETHER = `${SEALED}+`;

/** The headers with their secrets encrypted; the headers themselves if they have none. */
export function sealedHeaders(sealer: Sealer, task: NewTask): Headers {
  const names = namesWhere(task.headers, isSecret);
  const [first] = names;
  if (first === undefined) return task.headers;
  // Values that are sealed together already must stay the only ones of their kind.
  if (names.length === 1 || hasSealed(task.headers)) return sealEach(sealer, task, names);
  const headers: Record<string, string> = { ...task.headers };
  const values = names.map((name) => task.headers[name] ?? "");
  for (const name of names) headers[name] = SEALED;
  const sealed = sealValue(sealer, JSON.stringify(values), togetherContext(task, names));
  headers[first] = `${TOGETHER}${sealed}`;
  return headers;
}

function sealEach(sealer: Sealer, task: NewTask, names: readonly string[]): Headers {
  const headers: Record<string, string> = { ...task.headers };
  for (const name of names) {
    headers[name] = sealValue(sealer, headers[name] ?? "", contextOf(task, [name]));
  }
  return headers;
}

export function hasSealed(headers: Headers): boolean {
  for (const name in headers) if (headers[name]?.startsWith(SEALED)) return true;
  return false;
}

/** The headers decrypted; the headers themselves if none is sealed, null if one cannot be decrypted. */
export function openedHeaders(keys: readonly Key[], task: NewTask): Headers | null {
  const names = namesWhere(task.headers, isSealed);
  if (names.length === 0) return task.headers;
  const headers: Record<string, string> = { ...task.headers };
  const together = names.filter((name) => isTogether(headers[name] ?? ""));
  if (together.length > 0 && !openTogether(keys, task, together, headers)) return null;
  for (const name of names) {
    if (together.includes(name)) continue;
    const value = openBytes(keys, headers[name] ?? "", contextOf(task, [name]));
    if (value === null) return null;
    headers[name] = value.toString("utf8");
  }
  return headers;
}

/** Writes the values that were sealed together to the headers; false if they cannot be decrypted. */
function openTogether(
  keys: readonly Key[],
  task: NewTask,
  names: readonly string[],
  headers: Record<string, string>,
): boolean {
  const sealed = names.map((name) => headers[name] ?? "").filter((value) => value !== SEALED);
  const [first = ""] = sealed;
  const bytes = openBytes(keys, first.slice(TOGETHER.length), togetherContext(task, names));
  if (bytes === null || sealed.length !== 1) return false;
  const values = valuesIn(bytes.toString("utf8"));
  if (values?.length !== names.length) return false;
  for (const [index, name] of names.entries()) headers[name] = values[index] ?? "";
  return true;
}

/** A list of texts; undefined for everything else. */
function valuesIn(text: string): readonly string[] | undefined {
  try {
    const values: unknown = JSON.parse(text);
    const isList = Array.isArray(values) && values.every((value) => typeof value === "string");
    return isList ? values : undefined;
  } catch {
    return undefined;
  }
}

function isTogether(value: string): boolean {
  return value === SEALED || value.startsWith(TOGETHER);
}

type HeaderTest = (name: string, value: string) => boolean;

const isSealed: HeaderTest = (_, value) => value.startsWith(SEALED);
const isSecret: HeaderTest = (name, value) => !isSealed(name, value) && !isHarmlessHeader(name);

/** Sorted, because a store may return the headers in another order. */
function namesWhere(headers: Headers, isSuch: HeaderTest): readonly string[] {
  const names: string[] = [];
  for (const name in headers) if (isSuch(name, headers[name] ?? "")) names.push(name);
  return names.length > 1 ? names.sort() : names;
}

/** Binds a sealed value to its task and its headers: it cannot be decrypted anywhere else. */
function contextOf({ tenantId, taskId }: NewTask, names: readonly string[]): string {
  return `${tenantId}\n${taskId}\n${names.join("\n").toLowerCase()}`;
}

/** The form is part of it, so that a value that was sealed alone is never read as several values. */
function togetherContext(task: NewTask, names: readonly string[]): string {
  return `${contextOf(task, names)}\n+`;
}
