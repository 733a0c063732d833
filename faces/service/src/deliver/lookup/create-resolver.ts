/**
 * Create resolver: the resolver of production. `dns` asks the name servers directly: a lookup has a
 * deadline and occupies no thread. `system` asks the operating system (`getaddrinfo`) on one of the
 * four threads of the process, and knows every source of names that the system knows.
 */
import { lookup } from "node:dns/promises";
import type { Clock } from "@redrive/core";
import { createDnsLookup } from "./dns-lookup.ts";
import { type LookupLimits, limitLookups } from "./lookup-limits.ts";
import type { Resolver } from "./resolver.ts";

export type ResolverKind = "dns" | "system";

/** Each lookup has a socket, so the total is far below the usual limit of 1024 files. */
const DNS_LIMITS: LookupLimits = { perTenant: 32, inAll: 256 };

/** One tenant leaves a thread to the others. */
const SYSTEM_LIMITS: LookupLimits = { perTenant: 3, inAll: 4 };

export function createResolver(clock: Clock, kind: ResolverKind = "dns"): Resolver {
  if (kind === "dns") return limitLookups(clock, createDnsLookup({ clock }), DNS_LIMITS);
  return limitLookups(clock, (name) => lookup(name, { all: true }), SYSTEM_LIMITS);
}
