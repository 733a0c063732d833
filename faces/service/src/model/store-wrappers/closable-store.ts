/**
 * Closable store: wraps a store so that calls after its end are refused as calls to a stopped service. The
 * store itself would report a failure, after which nobody could know what was stored.
 */
import { stopped } from "../errors.ts";
import type { Store } from "../store.ts";
import { withCalls } from "./with-calls.ts";
import { wrapped } from "./wrapped.ts";

export function closableStore(inner: Store): Store {
  let isClosed = false;
  const close = () => {
    isClosed = true;
    return inner.close();
  };
  const refusing = withCalls(inner, (call) => (isClosed ? Promise.reject(stopped()) : call()));
  return wrapped(refusing, { close });
}
