/**
 * Timed store: wraps a store so that every call ends within a time. A call that takes longer is
 * reported as failed, although it may still take effect: the engine treats it as unknown.
 */
import type { Clock } from "@redrive/core";
import { STORE_CALL_MS, type Store } from "../store.ts";
import { transferOf } from "../transfer/transfer.ts";
import { namesOf, wrapped } from "./wrapped.ts";

type Call = (...args: readonly unknown[]) => unknown;

/** Methods that end at once, or that may take as long as the store needs. */
const UNTIMED: ReadonlySet<string> = new Set(["onHint", "close"]);

export function timedStore(clock: Clock, inner: Store, limitMs: number = STORE_CALL_MS): Store {
  const { query, documents, shards } = inner;
  const transfer = transferOf(inner);
  const timed = <Part extends object>(part: Part) => timedPart(clock, part, limitMs);
  return wrapped(timed(inner), {
    query: timed(query),
    documents: timed(documents),
    ...(transfer && { transfer: timed(transfer) }),
    ...(shards && { shards: { ...shards, stores: shards.stores.map(timed) } }),
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
