/**
 * Resolver: looks up the addresses of a name. It is injected, so that tests can simulate a hostile
 * DNS. Production uses the system's lookup, which knows the hosts file and the search list.
 */
import { lookup } from "node:dns/promises";

export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

/** All addresses of a name, in the order to try them; rejects with a coded error of `node:dns`. */
export type Resolver = (name: string) => Promise<readonly ResolvedAddress[]>;

/**
 * The system's resolver. Concurrent connections to one name share one lookup: lookups run on four
 * threads of the process, and one slow name must not occupy them all.
 */
export function systemResolver(): Resolver {
  const underWay = new Map<string, Promise<readonly ResolvedAddress[]>>();
  return (name) => {
    const known = underWay.get(name);
    if (known !== undefined) return known;
    const pending = lookup(name, { all: true }).finally(() => underWay.delete(name));
    underWay.set(name, pending);
    return pending;
  };
}
