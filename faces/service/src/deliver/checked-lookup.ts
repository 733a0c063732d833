/**
 * Checked lookup: looks up the name of a target and returns its addresses only if the target policy
 * allows all of them.
 */
import type { Clock } from "@redrive/core";
import { parseAddress } from "./address-guard/address.ts";
import { mayLookUp, mayReach, type TargetPolicy } from "./address-guard/target-policy.ts";
import { LookupFailed, TargetDenied } from "./failure.ts";
import { LOOKUP_DEADLINE_MS } from "./lookup/dns-lookup.ts";
import { lookupCodeOf } from "./lookup/lookup-error.ts";
import type { ResolvedAddress, Resolver } from "./lookup/resolver.ts";

/** At most this many addresses of one lookup are tried; a lookup may return thousands. */
export const MAX_ADDRESSES = 8;

export interface LookupParts {
  readonly clock: Clock;
  /** Called at every check: before the lookup and after it. */
  readonly policy: () => TargetPolicy;
  readonly resolve: Resolver;
}

interface NamedPort {
  readonly name: string;
  readonly port: number;
}

/** The checked addresses to try; undefined for a literal address, which needs no lookup. */
export async function addressesOf(
  parts: LookupParts,
  { name, port }: NamedPort,
  tenantId: string,
): Promise<readonly ResolvedAddress[] | undefined> {
  if (parseAddress(name)) {
    if (mayReach(parts.policy(), { address: name, name, port })) return undefined;
    throw new TargetDenied(name);
  }
  if (!mayLookUp(parts.policy(), name, port)) throw new TargetDenied(name);
  const resolved = await withLookupDeadline(parts.clock, parts.resolve(name, tenantId));
  if (resolved.length === 0) throw new LookupFailed("EMPTY_ANSWER");
  // One denied address denies the whole name: honest names do not mix internal and public
  // addresses.
  const policy = parts.policy();
  const isAllowed = ({ address }: ResolvedAddress) => mayReach(policy, { address, name, port });
  if (!resolved.every(isAllowed)) throw new TargetDenied(name);
  return resolved.slice(0, MAX_ADDRESSES);
}

function withLookupDeadline<T>(clock: Clock, resolved: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.alarm(
      LOOKUP_DEADLINE_MS,
      () => reject(new LookupFailed("LOOKUP_TIMEOUT")),
      true,
    );
    resolved.then(resolve, (error) => reject(lookupFailure(error))).finally(cancel);
  });
}

/**
 * A lookup knows more codes than core, and some of them, such as `ECONNREFUSED`, mean something else
 * for a connection.
 */
function lookupFailure(error: unknown): unknown {
  const code = lookupCodeOf(error);
  return code === "" ? error : new LookupFailed(code);
}
