/**
 * DNS lookup: asks the name servers for the addresses of a name, with c-ares. Unlike `getaddrinfo`,
 * it uses no thread, and its deadline ends it and frees its socket. It knows the hosts file and the
 * search list. It does not know the other sources of `nsswitch.conf`, such as mDNS. Nothing is
 * cached: a changed record takes effect at the next connection.
 */
import { promises } from "node:dns";
import type { Clock } from "@redrive/core";
import { bareName } from "./hosts-file.ts";
import { LookupError, lookupCodeOf } from "./lookup-error.ts";
import { candidates, type SearchList } from "./resolv-conf.ts";
import type { Lookup, ResolvedAddress } from "./resolver.ts";
import { SystemFiles, type SystemPaths } from "./system-files.ts";

export interface DnsLookupOptions {
  readonly clock: Clock;
  /** `address[:port]` of the name servers. Default: those of the system. */
  readonly servers?: readonly string[];
  /** Default: those of the system. */
  readonly paths?: SystemPaths;
}

/** A lookup that takes longer has failed. */
export const LOOKUP_DEADLINE_MS = 5000;

/** When one family has an answer, the other one gets this long. */
export const FAMILY_GRACE_MS = 300;

/** c-ares asks again after this time, then after twice this time; the deadline ends it. */
const QUERY_OPTIONS = { timeout: 1000, tries: 4 };

/** Idle channels that are kept. They hold no socket. */
const MAX_IDLE = 32;

export function createDnsLookup(options: DnsLookupOptions): Lookup {
  const dns = new DnsLookup(options);
  return (name) => dns.lookup(name);
}

/** A channel of c-ares. It serves one lookup at a time, so that canceling it ends only that one. */
type Channel = promises.Resolver;

class DnsLookup {
  readonly #clock: Clock;
  readonly #servers: readonly string[] | undefined;
  readonly #files: SystemFiles;

  // Mutable state: idle channels, and the search list of their time.
  #idle: Channel[] = [];
  #search: SearchList | undefined;

  constructor({ clock, servers, paths }: DnsLookupOptions) {
    this.#clock = clock;
    this.#servers = servers;
    this.#files = new SystemFiles(clock, paths);
  }

  async lookup(name: string): Promise<readonly ResolvedAddress[]> {
    const bare = bareName(name);
    this.#files.refresh();
    // RFC 6761: these names never leave the machine.
    if (bare === "localhost" || bare.endsWith(".localhost")) return this.#files.loopback;
    const known = this.#files.hosts.get(bare);
    if (known !== undefined) return known;
    const { search } = this.#files;
    const channel = this.#take(search);
    const cancelAlarm = this.#clock.alarm(LOOKUP_DEADLINE_MS, () => channel.cancel(), true);
    try {
      return await this.#firstFound(channel, candidates(name, search));
    } finally {
      cancelAlarm();
      // A query of the other family may still run.
      channel.cancel();
      if (search === this.#search && this.#idle.length < MAX_IDLE) this.#idle.push(channel);
    }
  }

  /** c-ares reads its name servers when a channel is created. */
  #take(search: SearchList): Channel {
    if (search !== this.#search) this.#idle = [];
    this.#search = search;
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    const channel = new promises.Resolver(QUERY_OPTIONS);
    if (this.#servers !== undefined) channel.setServers(this.#servers);
    return channel;
  }

  /** The first name of the search list that has addresses. */
  async #firstFound(channel: Channel, names: readonly string[]): Promise<ResolvedAddress[]> {
    let failure = "ENOTFOUND";
    for (const name of names) {
      const answer = await new Query(this.#clock, channel, name).run();
      if (answer.addresses.length > 0) return inOrder(answer.addresses, this.#files.prefersIpv6);
      failure = worse(failure, answer.code);
      if (!CONTINUE_AFTER.has(answer.code)) break;
    }
    throw new LookupError(failure);
  }
}

/** The next name of the search list is tried after these, as in the C library. */
const CONTINUE_AFTER: ReadonlySet<string> = new Set(["ENOTFOUND", "ESERVFAIL"]);

interface Answer {
  readonly addresses: readonly ResolvedAddress[];
  /** Why there are none. */
  readonly code: string;
}

/** Both families of one name, asked for at the same time. */
class Query {
  readonly #clock: Clock;
  readonly #channel: Channel;
  readonly #name: string;

  constructor(clock: Clock, channel: Channel, name: string) {
    this.#clock = clock;
    this.#channel = channel;
    this.#name = name;
  }

  async run(): Promise<Answer> {
    const families = [
      this.#ask(4, this.#channel.resolve4(this.#name)),
      this.#ask(6, this.#channel.resolve6(this.#name)),
    ];
    const first = await Promise.race(families);
    if (first.addresses.length === 0) return joined(await Promise.all(families));
    const cancel = () => this.#channel.cancel();
    const cancelAlarm = this.#clock.alarm(FAMILY_GRACE_MS, cancel, true);
    try {
      return joined(await Promise.all(families));
    } finally {
      cancelAlarm();
    }
  }

  async #ask(family: number, asked: Promise<readonly string[]>): Promise<Answer> {
    try {
      const addresses = (await asked).map((address) => ({ address, family }));
      return { addresses, code: "ENOTFOUND" };
    } catch (error) {
      return { addresses: [], code: codeFor(lookupCodeOf(error)) };
    }
  }
}

function joined(answers: readonly Answer[]): Answer {
  const codes = answers.map(({ code }) => code);
  return { addresses: answers.flatMap(({ addresses }) => addresses), code: codes.reduce(worse) };
}

/** Canceled by the deadline is late, and a name without addresses is one that does not exist. */
function codeFor(code: string): string {
  if (code === "ETIMEOUT" || code === "ECANCELLED") return "LOOKUP_TIMEOUT";
  return code === "ENODATA" ? "ENOTFOUND" : code || "ENOTFOUND";
}

/** A name that does not exist is the weakest statement: another answer may have been lost. */
function worse(one: string, other: string): string {
  return one === "ENOTFOUND" ? other : one;
}

function inOrder(addresses: readonly ResolvedAddress[], isIpv6First: boolean): ResolvedAddress[] {
  const first = isIpv6First ? 6 : 4;
  const isFirst = ({ family }: ResolvedAddress) => family === first;
  return [...addresses.filter(isFirst), ...addresses.filter((one) => !isFirst(one))];
}
