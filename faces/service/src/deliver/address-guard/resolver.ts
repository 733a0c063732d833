/**
 * Resolver: from a name to addresses, as a capability, so that tests can play a hostile DNS. The
 * system's own lookup serves in production, as it knows the hosts file and the search list.
 */
import { lookup } from "node:dns/promises";

export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

/** All addresses of a name, in the order to try them; rejects with a coded error of `node:dns`. */
export type Resolver = (name: string) => Promise<readonly ResolvedAddress[]>;

/**
 * The system's resolver. Connections opened at once to one name share one lookup: lookups run on
 * four threads that the whole process shares, and a slow name must not take them all.
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
