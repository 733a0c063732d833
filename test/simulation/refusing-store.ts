/**
 * Refusing store: refuses commits because of the content of a settle, as SQLite refuses a value that
 * does not fit its column. The same settle is refused each time, until it has less content.
 */
import type { Batch } from "../../faces/service/src/model/batch.ts";
import type { Store } from "../../faces/service/src/model/store.ts";
import { StoreRefusedError } from "../../faces/service/src/model/store-errors.ts";
import { wrapped } from "../../faces/service/src/model/wrapped.testing.ts";

export interface Refusals {
  refused: number;
}

/** One for all: a stack trace costs more than the call, and says nothing. */
const REFUSED = new StoreRefusedError("a value does not fit its column");

/** `counts` counts the refused commits. */
export function refusingStore(inner: Store, counts: Refusals): Store {
  return wrapped<Store>(inner, {
    commit(batch) {
      if (!batch.settles.some(isRefused)) return inner.commit(batch);
      counts.refused++;
      return Promise.reject(REFUSED);
    },
  });
}

/** About one of eleven results. The engine then adds a message, and the settle is accepted. */
function isRefused({ attempt }: Batch["settles"][number]): boolean {
  return attempt !== null && attempt.errorMessage === null && attempt.durationMs % 11 === 3;
}
