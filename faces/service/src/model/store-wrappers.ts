/**
 * Store wrappers: a store whose calls are changed: limited in time, with coded errors, measured, or refused
 * after it was closed.
 */

import { type Clock, messageOf, RedriveError } from "@redrive/core";
import type { Batch } from "./batch.ts";
import { serviceError, stopped } from "./errors.ts";
import { STORE_CALL_MS, type Store } from "./store.ts";
import { ReadAbortedError, StoreFullError, StoreRefusedError } from "./store-errors.ts";
import { transferOf } from "./transfer.ts";

// Wrapped: an object with the members of a store, or of a part of one, some of them replaced. The
// other methods run on the wrapped object itself, so it may be the instance of a class.

/**
 * Spreading an object would lose the methods of its class, and separate them from their `this`. Members
 * that are no methods never change, so they are copied: the engine reads them often, through several
 * wrappers.
 */
export function wrapped<Part extends object>(inner: Part, changes: Partial<Part>): Part {
  const outer: Partial<Part> = {};
  for (const name of namesOf(inner)) {
    const value = inner[name];
    if (Object.hasOwn(changes, name)) outer[name] = changes[name] as Part[typeof name];
    else if (typeof value === "function") outer[name] = forward(inner, name) as typeof value;
    else outer[name] = value;
  }
  return Object.assign(outer, changes) as Part;
}

/** The names of all members, inherited ones included. */
export function namesOf<Part extends object>(part: Part): readonly (keyof Part)[] {
  const names = new Set<string>();
  let owner: object | null = part;
  while (owner !== null && owner !== Object.prototype) {
    for (const name of Object.getOwnPropertyNames(owner)) names.add(name);
    owner = Object.getPrototypeOf(owner);
  }
  names.delete("constructor");
  return [...names] as (keyof Part & string)[];
}

type Method = (...args: readonly unknown[]) => unknown;

/** Looked up at each call, so that a method replaced later is found. */
function forward<Part extends object>(inner: Part, name: keyof Part): Method {
  return (...args) => (inner[name] as Method)(...args);
}

// With calls: a store whose calls all run through one function, those of its queries, documents and
// transfer included.

/** Makes a call, or does something else. `name`: that of the method. */
export type RunCall = (call: () => Promise<unknown>, name: string) => Promise<unknown>;

export function withCalls(inner: Store, run: RunCall): Store {
  const { query, documents } = inner;
  const transfer = transferOf(inner);
  return wrapped(partWithCalls(inner, run), {
    query: partWithCalls(query, run),
    documents: partWithCalls(documents, run),
    ...(transfer && { transfer: partWithCalls(transfer, run) }),
  });
}

type Ask = (...args: readonly unknown[]) => Promise<unknown>;

/** Every method of a store returns a promise, except `onWakeUp`, which only adds a listener. */
function partWithCalls<Part extends object>(part: Part, run: RunCall): Part {
  const changes: Partial<Record<keyof Part, Ask>> = {};
  for (const name of namesOf(part)) {
    if (typeof part[name] !== "function" || name === "onWakeUp") continue;
    changes[name] = async (...args) => run(() => (part[name] as Ask)(...args), String(name));
  }
  return wrapped(part, changes as Partial<Part>);
}

// Closable store: wraps a store so that calls after its end are refused as calls to a stopped service. The
// store itself would report a failure, after which nobody could know what was stored.

export function closableStore(inner: Store): Store {
  let isClosed = false;
  const close = () => {
    isClosed = true;
    return inner.close();
  };
  const refusing = withCalls(inner, (call) => (isClosed ? Promise.reject(stopped()) : call()));
  return wrapped(refusing, { close });
}

// Coded store: wraps a store for everything outside the engine. Failures become errors with a code.
// Every failure is also reported to the engine, which stops acknowledging work if the store is
// broken.

/** Methods that store something, or remove it. All others only read. */
const WRITES: ReadonlySet<string> = new Set([
  ...["commit", "createIn", "renew", "retire", "addPolicy", "removePolicy", "removeInline"],
  ...["sweep", "removeUnused", "discard", "put", "remove", "write"],
]);

/** The coded error for a failure of the store. `isRead`: nothing was to be stored. */
export function storeFailure(error: unknown, isRead = false): RedriveError {
  if (error instanceof RedriveError) return error;
  const text = messageOf(error);
  if (error instanceof StoreRefusedError) {
    return serviceError("STORE_REFUSED", `nothing was stored: ${text}`, error);
  }
  if (error instanceof StoreFullError) {
    return serviceError("STORE_FULL", `nothing was stored: ${text}`, error);
  }
  const what = isRead ? "the store could not be read" : "it is unknown what was stored";
  return serviceError("STORE_UNAVAILABLE", `${what}: ${text}`, error);
}

/**
 * `failed` receives the original error of every failure. A coded error is a refusal, and an aborted
 * read is the caller's wish: the store works.
 */
export function codedStore(inner: Store, failed: (error: unknown) => void): Store {
  const refuse = (error: unknown, name: string): never => {
    if (error instanceof ReadAbortedError) throw error.cause;
    if (!(error instanceof RedriveError)) failed(error);
    throw storeFailure(error, !WRITES.has(name));
  };
  return withCalls(inner, (call, name) => call().catch((error) => refuse(error, name)));
}

// Metered store: wraps a store and reports the size and duration of its commits.

/** A successful commit. */
export interface CommitSample {
  /** Number of tasks created, settled, canceled, rescheduled and claimed, and of destination rows. */
  readonly items: number;
  readonly durationMs: number;
}

export type CommitListener = (sample: CommitSample) => void;

export interface MeteredStore {
  readonly store: Store;
  /** Returns a function that removes the listener. */
  onCommit(listener: CommitListener): () => void;
}

export function meteredStore(clock: Clock, inner: Store): MeteredStore {
  const listeners = new Set<CommitListener>();
  async function commit(batch: Batch) {
    const startMs = clock.monotonicMs();
    const result = await inner.commit(batch);
    const claimed = result.claims.reduce((sum, { tasks }) => sum + tasks.length, 0);
    const sample = {
      items: itemsOf(batch) + claimed,
      durationMs: clock.monotonicMs() - startMs,
    };
    for (const listener of listeners) listener(sample);
    return result;
  }
  return {
    store: wrapped(inner, { commit }),
    onCommit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function itemsOf({ destinations, creates, settles, cancels, retryNows }: Batch): number {
  return destinations.length + creates.length + settles.length + cancels.length + retryNows.length;
}

// Timed store: wraps a store so that every call ends within a time. A call that takes longer is
// reported as failed, although it may still take effect: the engine treats it as unknown.

type Call = (...args: readonly unknown[]) => unknown;

/** Methods that end at once, or that may take as long as the store needs. */
const UNTIMED: ReadonlySet<string> = new Set(["onWakeUp", "close"]);

export function timedStore(clock: Clock, inner: Store, limitMs: number = STORE_CALL_MS): Store {
  const { query, documents } = inner;
  const transfer = transferOf(inner);
  const timed = <Part extends object>(part: Part) => timedPart(clock, part, limitMs);
  return wrapped(timed(inner), {
    query: timed(query),
    documents: timed(documents),
    ...(transfer && { transfer: timed(transfer) }),
  });
}

/** A part of a store whose methods all return promises, such as its queries. */
export function timedPart<Part extends object>(
  clock: Clock,
  part: Part,
  limitMs: number = STORE_CALL_MS,
): Part {
  const changes: Partial<Record<keyof Part, Call>> = {};
  for (const name of namesOf(part)) {
    if (typeof part[name] !== "function" || UNTIMED.has(String(name))) continue;
    changes[name] = (...args) =>
      within(clock, limitMs, String(name), (part[name] as Call)(...args) as Promise<unknown>);
  }
  return wrapped(part, changes as Partial<Part>);
}

function within<T>(clock: Clock, ms: number, name: string, call: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    // The error is made only when it is needed: its stack trace costs more than most calls.
    const fail = () => reject(new Error(`the store did not respond to ${name} within ${ms} ms`));
    const cancel = clock.alarm(ms, fail, true);
    // Not `finally`, which makes four more promises.
    call.then(
      (result) => {
        cancel();
        resolve(result);
      },
      (error: unknown) => {
        cancel();
        reject(error);
      },
    );
  });
}
