/**
 * Class store: a store whose methods are inherited and use private fields, as those of a class are.
 * Wrappers must keep them.
 */
import type { Store } from "../model/store.ts";
import { transferOf } from "../model/transfer.ts";

export function classStore(inner: Store): Store {
  const { query, documents } = inner;
  const transfer = transferOf(inner);
  const parts = {
    query: instanceOf(query),
    documents: instanceOf(documents),
    ...(transfer && { transfer: instanceOf(transfer) }),
  };
  return instanceOf({ ...inner, ...parts });
}

type Method = (...args: readonly unknown[]) => unknown;

function instanceOf<Part extends object>(inner: Part): Part {
  class Instance {
    readonly #inner = inner;
    /** Fails if `self` is not an instance: the method was separated from its object. */
    static read(self: Instance, name: keyof Part): unknown {
      return self.#inner[name];
    }
  }
  for (const name of Object.keys(inner) as (keyof Part & string)[]) {
    const descriptor: PropertyDescriptor & ThisType<Instance> =
      typeof inner[name] === "function"
        ? {
            value(...args: readonly unknown[]) {
              return (Instance.read(this, name) as Method)(...args);
            },
          }
        : {
            get() {
              return Instance.read(this, name);
            },
          };
    Object.defineProperty(Instance.prototype, name, descriptor);
  }
  return new Instance() as unknown as Part;
}
