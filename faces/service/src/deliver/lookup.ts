/**
 * Lookup: finds the addresses of a name, as the resolver of production. `dns` asks the name servers directly: a lookup has a
 * deadline and occupies no thread. `system` asks the operating system (`getaddrinfo`) on one of the
 * four threads of the process, and knows every source of names that the system knows.
 */
import { getDefaultResultOrder, promises } from "node:dns";
import { lookup } from "node:dns/promises";
import { readFileSync, statSync } from "node:fs";
import { type NetworkInterfaceInfo, networkInterfaces } from "node:os";
import { join } from "node:path";
import type { Cancel, Clock } from "@redrive/core";
import { kindOf, parseAddress } from "./address-guard.ts";

export type ResolverKind = "dns" | "system";

/** Each lookup has a socket, so the total is far below the usual limit of 1024 files. */
const DNS_LIMITS: LookupLimits = { perTenant: 32, inAll: 256 };

/** One tenant leaves a thread to the others. */
const SYSTEM_LIMITS: LookupLimits = { perTenant: 3, inAll: 4 };

export function createResolver(clock: Clock, kind: ResolverKind = "dns"): Resolver {
  if (kind === "dns") return limitLookups(clock, createDnsLookup({ clock }), DNS_LIMITS);
  return limitLookups(clock, (name) => lookup(name, { all: true }), SYSTEM_LIMITS);
}

/** The type of a function that looks up names. Tests inject one that simulates a DNS. */
export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

/**
 * All addresses of a name, in the order to try them. Rejects with an error that has a code. The
 * limits of the tenant apply.
 */
export type Resolver = (name: string, tenantId: string) => Promise<readonly ResolvedAddress[]>;

/** A resolver without limits. */
export type Lookup = (name: string) => Promise<readonly ResolvedAddress[]>;

// DNS lookup: asks the name servers for the addresses of a name, with c-ares. Unlike `getaddrinfo`,
// it uses no thread, and its deadline ends it and frees its socket. It knows the hosts file and the
// search list. It does not know the other sources of `nsswitch.conf`, such as mDNS. Nothing is
// cached: a changed record takes effect at the next connection.

interface DnsLookupOptions {
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

// Lookup limits: bounds the lookups that run at once, of one tenant and in all. Callers that ask
// for a name whose lookup runs share it. Above the limit, a lookup waits for a short time; the
// tenants take turns, so slow names of one tenant do not delay the lookups of another.

interface LookupLimits {
  /** Lookups of one tenant at once. */
  readonly perTenant: number;
  /** Lookups of all tenants at once. */
  readonly inAll: number;
}

type SharedAnswer = ReturnType<Lookup>;

/** Waiting names of one tenant. */
export const MAX_WAITING_NAMES = 1000;

/** Shorter than a usual connect timeout, so that the error names the limit. */
export const MAX_WAIT_MS = 2000;

export function limitLookups(clock: Clock, lookup: Lookup, limits: LookupLimits): Resolver {
  const queue = new LookupQueue(clock, lookup, limits);
  return (name, tenantId) => queue.resolve(name, tenantId);
}

interface Waiting {
  readonly answer: SharedAnswer;
  readonly settle: (answer: SharedAnswer) => void;
  readonly cancelAlarm: Cancel;
}

/** Exists only while the tenant has a lookup. */
interface Tenant {
  readonly tenantId: string;
  running: number;
  /** By name, in order of arrival. */
  readonly waiting: Map<string, Waiting>;
}

class LookupQueue {
  readonly #clock: Clock;
  readonly #lookup: Lookup;
  readonly #limits: LookupLimits;

  // Mutable state.
  /** By name. */
  readonly #running = new Map<string, SharedAnswer>();
  /** By id. The tenant that was served least recently comes first. */
  readonly #tenants = new Map<string, Tenant>();

  constructor(clock: Clock, lookup: Lookup, limits: LookupLimits) {
    this.#clock = clock;
    this.#lookup = lookup;
    this.#limits = limits;
  }

  resolve(name: string, tenantId: string): SharedAnswer {
    const tenant = this.#tenants.get(tenantId) ?? { tenantId, running: 0, waiting: new Map() };
    const shared = this.#running.get(name) ?? tenant.waiting.get(name)?.answer;
    if (shared !== undefined) return shared;
    if (this.#hasRoom(tenant)) return this.#start(name, tenant);
    if (tenant.waiting.size >= MAX_WAITING_NAMES) return Promise.reject(tooMany());
    return this.#wait(name, tenant);
  }

  #hasRoom({ running }: Tenant): boolean {
    return running < this.#limits.perTenant && this.#running.size < this.#limits.inAll;
  }

  #start(name: string, tenant: Tenant): SharedAnswer {
    this.#moveToEnd(tenant);
    tenant.running++;
    const answer = this.#lookup(name).finally(() => {
      tenant.running--;
      this.#running.delete(name);
      this.#forgetIfIdle(tenant);
      this.#startWaiting();
    });
    this.#running.set(name, answer);
    return answer;
  }

  #wait(name: string, tenant: Tenant): SharedAnswer {
    let settle: Waiting["settle"] = () => {};
    const answer: SharedAnswer = new Promise((resolve) => {
      settle = resolve;
    });
    const giveUp = () => {
      tenant.waiting.delete(name);
      this.#forgetIfIdle(tenant);
      settle(Promise.reject(tooMany()));
    };
    const cancelAlarm = this.#clock.alarm(MAX_WAIT_MS, giveUp, true);
    tenant.waiting.set(name, { answer, settle, cancelAlarm });
    this.#tenants.set(tenant.tenantId, tenant);
    return answer;
  }

  #startWaiting(): void {
    let tenant = this.#nextTenant();
    while (tenant !== undefined) {
      const [entry] = tenant.waiting;
      if (entry === undefined) return;
      const [name, { settle, cancelAlarm }] = entry;
      tenant.waiting.delete(name);
      cancelAlarm();
      settle(this.#running.get(name) ?? this.#start(name, tenant));
      tenant = this.#nextTenant();
    }
  }

  #nextTenant(): Tenant | undefined {
    for (const tenant of this.#tenants.values()) {
      if (tenant.waiting.size > 0 && this.#hasRoom(tenant)) return tenant;
    }
    return undefined;
  }

  #moveToEnd(tenant: Tenant): void {
    this.#tenants.delete(tenant.tenantId);
    this.#tenants.set(tenant.tenantId, tenant);
  }

  #forgetIfIdle({ tenantId, running, waiting }: Tenant): void {
    if (running === 0 && waiting.size === 0) this.#tenants.delete(tenantId);
  }
}

function tooMany(): LookupError {
  return new LookupError("TOO_MANY_LOOKUPS");
}

/** `TOO_MANY_LOOKUPS`: the tenant has too many lookups in progress. Others are codes of `node:dns`. */
type LookupErrorCode = "LOOKUP_TIMEOUT" | "TOO_MANY_LOOKUPS" | (string & {});

/** A lookup that failed for a reason of our own, or of the name servers. */
class LookupError extends Error {
  override readonly name = "LookupError";
  readonly code: LookupErrorCode;

  constructor(code: LookupErrorCode) {
    super(`the lookup failed (${code})`);
    this.code = code;
  }
}

/** The code of any error; empty if it has none. */
export function lookupCodeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === "string" ? code : "";
}

// System files: what this machine says about names and addresses: its hosts file, its search list
// and its network interfaces. Changes take effect within a second.

interface SystemPaths {
  readonly hosts: string;
  readonly resolvConf: string;
}

const CHECK_EVERY_MS = 1000;

const LOOPBACK_IPV4: ResolvedAddress = { address: "127.0.0.1", family: 4 };
const LOOPBACK_IPV6: ResolvedAddress = { address: "::1", family: 6 };

class SystemFiles {
  readonly #clock: Clock;
  readonly #hosts: WatchedFile<HostsFile>;
  readonly #search: WatchedFile<SearchList>;

  // Mutable state.
  #checkedMs = Number.NEGATIVE_INFINITY;
  #prefersIpv6 = false;
  #loopback: readonly ResolvedAddress[] = [LOOPBACK_IPV4];

  constructor(clock: Clock, paths: SystemPaths = systemPaths()) {
    this.#clock = clock;
    this.#hosts = new WatchedFile(paths.hosts, parseHosts, new Map());
    this.#search = new WatchedFile(paths.resolvConf, parseResolvConf, NO_SEARCH);
  }

  get hosts(): HostsFile {
    return this.#hosts.content;
  }

  /** A new object whenever `/etc/resolv.conf` has changed. */
  get search(): SearchList {
    return this.#search.content;
  }

  get prefersIpv6(): boolean {
    return this.#prefersIpv6;
  }

  /** The addresses of `localhost`. */
  get loopback(): readonly ResolvedAddress[] {
    return this.#loopback;
  }

  /** Synchronous: the threads for asynchronous access may be busy, and the files are small. */
  refresh(): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#checkedMs < CHECK_EVERY_MS) return;
    this.#checkedMs = nowMs;
    this.#hosts.refresh();
    this.#search.refresh();
    const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
    this.#prefersIpv6 = prefersIpv6(addresses);
    const hasIpv6 = addresses.some(({ address }) => address === LOOPBACK_IPV6.address);
    this.#loopback = hasIpv6 ? [LOOPBACK_IPV4, LOOPBACK_IPV6] : [LOOPBACK_IPV4];
  }
}

class WatchedFile<T> {
  readonly #path: string;
  readonly #parse: (text: string) => T;
  readonly #empty: T;

  // Mutable state.
  #version = "";
  content: T;

  constructor(path: string, parse: (text: string) => T, empty: T) {
    this.#path = path;
    this.#parse = parse;
    this.#empty = empty;
    this.content = empty;
  }

  /** A file that is missing is empty. One that cannot be read now keeps its last content. */
  refresh(): void {
    try {
      const { mtimeMs, size, ino } = statSync(this.#path);
      const version = `${mtimeMs} ${size} ${ino}`;
      if (version === this.#version) return;
      this.content = this.#parse(readFileSync(this.#path, "utf8"));
      this.#version = version;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || this.#version === "") return;
      this.#version = "";
      this.content = this.#empty;
    }
  }
}

function systemPaths(): SystemPaths {
  const root = process.env["SystemRoot"];
  const windows = root && join(root, "System32", "drivers", "etc", "hosts");
  return { hosts: windows || "/etc/hosts", resolvConf: "/etc/resolv.conf" };
}

/** As `getaddrinfo` does: IPv6 first if this machine has a public IPv6 address. */
function prefersIpv6(addresses: readonly NetworkInterfaceInfo[]): boolean {
  const order = getDefaultResultOrder();
  if (order !== "verbatim") return order !== "ipv4first";
  return addresses.some(isPublicIpv6);
}

function isPublicIpv6({ address, internal }: NetworkInterfaceInfo): boolean {
  const bytes = internal ? undefined : parseAddress(address);
  return bytes?.length === 16 && kindOf(bytes) === "public";
}

// Hosts file: the names and addresses in the text of a hosts file.

/** By name, in lower case. */
type HostsFile = ReadonlyMap<string, readonly ResolvedAddress[]>;

/** Lines are an address and its names. Lines with an address that does not parse are skipped. */
function parseHosts(text: string): HostsFile {
  const hosts = new Map<string, ResolvedAddress[]>();
  for (const line of text.split("\n")) {
    const [address = "", ...names] = withoutComment(line).split(/\s+/u);
    if (names.length === 0 || parseAddress(address) === undefined) continue;
    const resolved = { address, family: address.includes(":") ? 6 : 4 };
    for (const name of names) addTo(hosts, bareName(name), resolved);
  }
  return hosts;
}

/** In lower case, without the dot at the end. */
function bareName(name: string): string {
  return name.toLowerCase().replace(/\.$/u, "");
}

function addTo(hosts: Map<string, ResolvedAddress[]>, name: string, added: ResolvedAddress): void {
  const known = hosts.get(name);
  if (known === undefined) hosts.set(name, [added]);
  else if (!known.some(({ address }) => address === added.address)) known.push(added);
}

function withoutComment(line: string): string {
  return line.replace(/#.*$/u, "").trim();
}

// Resolv conf: which names to ask for, by the search list in the text of `/etc/resolv.conf`.

interface SearchList {
  readonly domains: readonly string[];
  /** A name with at least this many dots is asked for as it is first. */
  readonly ndots: number;
}

const NO_SEARCH: SearchList = { domains: [], ndots: 1 };

/** The limit of Kubernetes. */
const MAX_DOMAINS = 32;
const MAX_NDOTS = 15;

/** The last `search` or `domain` line counts, as in the C library. */
function parseResolvConf(text: string): SearchList {
  let { domains, ndots } = NO_SEARCH;
  for (const line of text.split("\n")) {
    const [keyword, ...values] = line
      .replace(/[#;].*$/u, "")
      .trim()
      .split(/\s+/u);
    if (keyword === "search") domains = values;
    if (keyword === "domain") domains = values.slice(0, 1);
    const given = keyword === "options" && /(?:^| )ndots:(\d+)/u.exec(values.join(" "))?.[1];
    if (given) ndots = Math.min(Number(given), MAX_NDOTS);
  }
  const bare = domains
    .map((domain) => domain.replace(/\.$/u, ""))
    .filter((domain) => domain !== "");
  return { domains: bare.slice(0, MAX_DOMAINS), ndots };
}

/** The names to ask for, in order. A dot at the end means that the name is complete. */
function candidates(name: string, { domains, ndots }: SearchList): readonly string[] {
  if (name.endsWith(".")) return [name.slice(0, -1)];
  const searched = domains.map((domain) => `${name}.${domain}`);
  const dots = name.split(".").length - 1;
  return dots >= ndots ? [name, ...searched] : [...searched, name];
}
