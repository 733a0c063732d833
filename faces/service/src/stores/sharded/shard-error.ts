/** Shard error: a failure of one shard, with its number, so that operators know which server failed. */
import { messageOf, RedriveError } from "@redrive/core";
import type { Store } from "../../model/store.ts";
import {
  ReadAbortedError,
  StoreBrokenError,
  StoreFullError,
  StoreRefusedError,
} from "../../model/store-errors.ts";
import { namesOf, wrapped } from "../../model/store-wrappers/wrapped.ts";

const KEPT = [RedriveError, ReadAbortedError, StoreBrokenError, StoreFullError, StoreRefusedError];

/** The failure with the number of the shard, unless its class or code says what callers need. */
export function shardFailure(shard: number, error: unknown): unknown {
  if (KEPT.some((kind) => error instanceof kind)) return error;
  const text = messageOf(error);
  return new Error(`shard ${shard + 1}: ${text}`, { cause: error });
}

type Call = (...args: readonly unknown[]) => unknown;

/** The store of a shard whose failures name the shard. */
export function namedShard(inner: Store, shard: number): Store {
  const named = <Part extends object>(part: Part): Part => {
    const changes: Partial<Record<keyof Part, Call>> = {};
    for (const name of namesOf(part)) {
      if (typeof part[name] !== "function" || name === "onHint") continue;
      changes[name] = (...args) => {
        const result = (part[name] as Call)(...args);
        if (!(result instanceof Promise)) return result;
        return result.catch((error: unknown) => {
          throw shardFailure(shard, error);
        });
      };
    }
    return wrapped(part, changes as Partial<Part>);
  };
  const { query, documents } = inner;
  return wrapped(named(inner), { query: named(query), documents: named(documents) });
}
