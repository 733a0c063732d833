/**
 * With calls: a store whose calls all run through one function, those of its queries, documents and
 * transfer included.
 */
import type { Store } from "../store.ts";
import { transferOf } from "../transfer/transfer.ts";
import { namesOf, wrapped } from "./wrapped.ts";

/** Makes a call, or does something else. */
export type RunCall = (call: () => Promise<unknown>) => Promise<unknown>;

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

/** Every method of a store returns a promise, except `onHint`, which only adds a listener. */
function partWithCalls<Part extends object>(part: Part, run: RunCall): Part {
  const changes: Partial<Record<keyof Part, Ask>> = {};
  for (const name of namesOf(part)) {
    if (typeof part[name] !== "function" || name === "onHint") continue;
    changes[name] = async (...args) => run(() => (part[name] as Ask)(...args));
  }
  return wrapped(part, changes as Partial<Part>);
}
