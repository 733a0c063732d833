/**
 * Address guard: decides where attempts may go. It checks names and ports before a lookup and
 * addresses after it, with the same rules. Everything that no rule allows is denied. This service's
 * own port is always denied, and the metadata services of clouds need an entry for the exact
 * address.
 */
import { networkInterfaces } from "node:os";
import { assertRange, quote, RedriveError } from "@redrive/core";

/** `public`: the open internet. `loopback`: also this machine, for development. */
export type TargetMode = "public" | "loopback";

/** Where this process listens. Without an address, or with 0.0.0.0 or ::, on every address. */
export interface ListenAddress {
  readonly address?: string;
  readonly port: number;
}

export interface TargetPolicyOptions {
  /** What is allowed without an allowlist entry. Default: `public`. */
  readonly mode?: TargetMode;
  /** Exceptions, from `parseAllowlist`. Default: none. */
  readonly allow?: readonly AllowRule[];
  /** Always denied, because a task that calls its own service multiplies. Default: none. */
  readonly own?: readonly ListenAddress[];
  /**
   * Addresses of this machine, for an `own` without an address. Default: those of its interfaces.
   */
  readonly machine?: readonly string[];
}

export interface TargetPolicy {
  readonly mode: TargetMode;
  readonly allow: readonly AllowRule[];
  readonly own: readonly OwnListener[];
  readonly machine: readonly AddressBytes[];
}

interface OwnListener {
  /** Undefined: every address of the machine. */
  readonly bytes: AddressBytes | undefined;
  readonly port: number;
}

/** Validates the options; throws `INVALID_ARGUMENT` for a malformed address or port. */
export function createTargetPolicy(options: TargetPolicyOptions = {}): TargetPolicy {
  const { mode = "public", allow = [], own = [], machine = interfaceAddresses() } = options;
  return { mode, allow, own: own.map(listenerOf), machine: machine.map(bytesOf) };
}

/** Whether a name may be looked up for a port. Its addresses are checked after the lookup. */
export function mayLookUp(policy: TargetPolicy, name: string, port: number): boolean {
  const bare = bareName(name);
  const rules = policy.allow.filter((rule) => rule.name === undefined || rule.name === bare);
  if (BLOCKED_PORTS.has(port) && !rules.some((rule) => rule.port === port)) return false;
  if (!isInternalName(bare)) return true;
  if (policy.mode === "loopback" && isLocalhost(bare)) return true;
  return rules.some((rule) => rule.name === bare && opensPort(rule, port));
}

/** An endpoint that an attempt is about to reach, or has reached. */
interface Endpoint {
  /** As sockets and lookups report it. Undefined, as a dead socket reports, is denied. */
  readonly address: string | undefined;
  /** The host of the URL: a name, or the address itself. */
  readonly name: string;
  readonly port: number;
}

/** Whether a connection to this address may be used. Denies addresses that do not parse. */
export function mayReach(policy: TargetPolicy, { address, name, port }: Endpoint): boolean {
  const bytes = address === undefined ? undefined : parseAddress(address);
  if (bytes === undefined || isOwn(policy, bytes, port)) return false;
  const bare = bareName(name);
  const rules = policy.allow.filter((rule) => opensPort(rule, port) && matches(rule, bare, bytes));
  if (BLOCKED_PORTS.has(port) && !rules.some((rule) => rule.port === port)) return false;
  return isOpen(policy, bytes, rules);
}

function isOpen(policy: TargetPolicy, bytes: AddressBytes, rules: readonly AllowRule[]): boolean {
  const kind = kindOf(bytes);
  if (kind === "metadata") return rules.some((rule) => rule.block?.prefix === bytes.length * 8);
  if (kind === "public" || (kind === "loopback" && policy.mode === "loopback")) return true;
  return rules.length > 0;
}

function opensPort(rule: AllowRule, port: number): boolean {
  return rule.port === undefined || rule.port === port;
}

function matches(rule: AllowRule, bareHost: string, bytes: AddressBytes): boolean {
  if (rule.block === undefined) return rule.name === bareHost;
  return isInBlock(bytes, rule.block);
}

function isOwn(policy: TargetPolicy, bytes: AddressBytes, port: number): boolean {
  return policy.own.some((own) => own.port === port && isServedBy(policy, own.bytes, bytes));
}

/** All loopback addresses count as one: systems differ in which of them a listener accepts. */
function isServedBy(
  policy: TargetPolicy,
  listener: AddressBytes | undefined,
  bytes: AddressBytes,
): boolean {
  const isThisMachine = kindOf(bytes) === "loopback" || isUnspecified(bytes);
  if (listener !== undefined && kindOf(listener) !== "loopback") return isSame(listener, bytes);
  if (isThisMachine) return true;
  return listener === undefined && policy.machine.some((address) => isSame(address, bytes));
}

function isSame(one: AddressBytes, other: AddressBytes): boolean {
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}

function isUnspecified(bytes: AddressBytes): boolean {
  return bytes.every((byte) => byte === 0);
}

/** Single labels, and names that by convention or RFC 6761, 6762 and 8375 stay inside a network. */
function isInternalName(bare: string): boolean {
  return !bare.includes(".") || /\.(internal|local|localhost|home\.arpa)$/.test(bare);
}

function isLocalhost(bare: string): boolean {
  return bare === "localhost" || bare.endsWith(".localhost");
}

function bareName(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}

function listenerOf({ address, port }: ListenAddress): OwnListener {
  assertRange("port", port, 1, 65_535);
  const bytes = address === undefined ? undefined : bytesOf(address);
  return { bytes: bytes === undefined || isUnspecified(bytes) ? undefined : bytes, port };
}

function bytesOf(address: string): AddressBytes {
  const bytes = parseAddress(address);
  if (bytes !== undefined) return bytes;
  const message = `address must be an IP address, got ${quote(address)}`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

function interfaceAddresses(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map((one) => one.address));
}

// Address: classifies an IP address by its bytes. A URL can write one address in a dozen ways, but
// its bytes are unique, so only the parser here looks at text. Callers deny text that does not
// parse.

/** 4 bytes of IPv4 or 16 of IPv6. An IPv4-mapped IPv6 address is converted to its IPv4 address. */
type AddressBytes = readonly number[];

/**
 * `public` is the open internet; `loopback` is this machine; `metadata` is link-local or hands out
 * a cloud's credentials; `special` is every other range.
 */
export type AddressKind = "public" | "loopback" | "metadata" | "special";

/** All addresses that share their first `prefix` bits. */
interface AddressBlock {
  readonly bytes: AddressBytes;
  readonly prefix: number;
}

/**
 * The bytes of an address as sockets and the URL parser write it, with or without brackets;
 * undefined if it does not parse.
 */
export function parseAddress(text: string): AddressBytes | undefined {
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  return bare.includes(":") ? unwrapMapped(parseIpv6(bare)) : parseIpv4(bare);
}

/**
 * A block such as `10.0.0.0/8`, or one address; undefined if it is malformed or has bits after the
 * prefix.
 */
export function parseBlock(text: string): AddressBlock | undefined {
  const [address = "", length, ...rest] = text.split("/");
  const bytes = parseAddress(address);
  if (bytes === undefined || rest.length > 0) return undefined;
  const prefix = length === undefined ? bytes.length * 8 : parsePrefix(length);
  if (prefix > bytes.length * 8) return undefined;
  const block = { bytes, prefix };
  return bytes.every((byte, index) => (byte & ~maskOf(prefix, index) & 0xff) === 0)
    ? block
    : undefined;
}

export function isInBlock(bytes: AddressBytes, block: AddressBlock): boolean {
  if (bytes.length !== block.bytes.length) return false;
  return bytes.every((byte, index) => {
    const mask = maskOf(block.prefix, index);
    return (byte & mask) === ((block.bytes[index] ?? 0) & mask);
  });
}

export function kindOf(bytes: AddressBytes): AddressKind {
  const isIn = (block: AddressBlock) => isInBlock(bytes, block);
  if (LOOPBACK.some(isIn)) return "loopback";
  if (METADATA.some(isIn)) return "metadata";
  if (bytes.length === 4) return SPECIAL_IPV4.some(isIn) ? "special" : "public";
  return GLOBAL_IPV6.some(isIn) && !SPECIAL_IPV6.some(isIn) ? "public" : "special";
}

/** Bits of byte `index` that lie within the prefix. */
function maskOf(prefix: number, index: number): number {
  const bits = Math.min(8, Math.max(0, prefix - index * 8));
  return (0xff << (8 - bits)) & 0xff;
}

/** Infinity for a malformed prefix: it is longer than any address. */
function parsePrefix(text: string): number {
  return /^(0|[1-9]\d{0,2})$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY;
}

function parseIpv4(text: string): AddressBytes | undefined {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every(isDecimalByte)) return undefined;
  return parts.map(Number);
}

/** No leading zeros: many parsers read `010` as eight. */
function isDecimalByte(text: string): boolean {
  return /^(0|[1-9]\d{0,2})$/.test(text) && Number(text) <= 255;
}

function parseIpv6(text: string): AddressBytes | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const [head, tail] = halves.map((half, index) => parseGroups(half, index === halves.length - 1));
  if (head === undefined) return undefined;
  if (halves.length === 1) return head.length === 16 ? head : undefined;
  // "::" stands for at least one group of zeros.
  if (tail === undefined || head.length + tail.length > 14) return undefined;
  const zeros = new Array<number>(16 - head.length - tail.length).fill(0);
  return [...head, ...zeros, ...tail];
}

/** The bytes of groups between colons. The last group of an address may be a dotted IPv4. */
function parseGroups(text: string, isLast: boolean): AddressBytes | undefined {
  if (text === "") return [];
  const groups = text.split(":");
  const bytes: number[] = [];
  for (const [index, group] of groups.entries()) {
    const dotted = isLast && index === groups.length - 1 ? parseIpv4(group) : undefined;
    if (dotted === undefined && !/^[\da-f]{1,4}$/i.test(group)) return undefined;
    const value = Number.parseInt(group, 16);
    bytes.push(...(dotted ?? [value >> 8, value & 0xff]));
  }
  return bytes;
}

function unwrapMapped(bytes: AddressBytes | undefined): AddressBytes | undefined {
  const mapped = bytes?.every((byte, index) => index > 11 || byte === (index < 10 ? 0 : 0xff));
  return mapped ? bytes?.slice(12) : bytes;
}

function blocks(...texts: readonly string[]): readonly AddressBlock[] {
  return texts.map((text) => {
    const block = parseBlock(text);
    if (block === undefined) throw new Error(`not a block of addresses: ${text}`);
    return block;
  });
}

const LOOPBACK = blocks("127.0.0.0/8", "::1/128");

/** Link-local, where AWS, GCP and Azure serve metadata, and the addresses of other clouds. */
const METADATA = blocks(
  "169.254.0.0/16",
  "fe80::/10",
  "100.100.100.200", // Alibaba
  "168.63.129.16", // Azure's wire server: a public address that is none
  "192.0.0.192", // Oracle
  "fd00:ec2::/32", // AWS over IPv6
  "fd20:ce::254", // GCP over IPv6
);

/** IANA's IPv4 special-purpose registry, and multicast. */
const SPECIAL_IPV4 = blocks(
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
);

/** The only IPv6 unicast range that IANA has allocated. Everything outside is denied. */
const GLOBAL_IPV6 = blocks("2000::/3");

/** Protocol assignments with Teredo, documentation, 6to4, AS112 and the old 6bone. */
const SPECIAL_IPV6 = blocks(
  "2001::/23",
  "2001:db8::/32",
  "2002::/16",
  "2620:4f:8000::/48",
  "3ffe::/16",
  "3fff::/20",
);

// Allowlist: the operator's exceptions to the address guard, from `REDRIVE_ALLOW_TARGETS`:
// `cidr[:port]` or `name[:port]`, separated by commas. A malformed entry prevents the start,
// because a rule that is silently ignored would cause an outage.

/** A block of addresses or one name, on one port or on all ports except the blocked ones. */
export interface AllowRule {
  readonly block?: AddressBlock;
  /** Lower case, without a trailing dot. Covers every address that it resolves to. */
  readonly name?: string;
  readonly port?: number;
}

/**
 * Parses the list; throws `INVALID_ARGUMENT` that quotes the first malformed entry. "" has no
 * entries.
 */
export function parseAllowlist(text: string): readonly AllowRule[] {
  if (text.trim() === "") return [];
  return text.split(",").map((entry) => parseEntry(entry.trim()));
}

function parseEntry(entry: string): AllowRule {
  if (entry.includes("://")) throw refused(entry, "it must have no scheme");
  const { host, port } = splitPort(entry);
  const rule = looksLikeAddress(host)
    ? { block: blockOf(entry, host) }
    : { name: nameOf(entry, host) };
  return port === undefined ? rule : { ...rule, port: portOf(entry, port) };
}

/** `[v6]:port`, `v4:port` or `name:port`; an IPv6 address without brackets has no port. */
function splitPort(entry: string): { readonly host: string; readonly port?: string | undefined } {
  const bracketed = /^\[([^\]]*)\](?::(.*))?$/.exec(entry);
  if (bracketed) return { host: bracketed[1] ?? "", port: bracketed[2] };
  const colon = entry.indexOf(":");
  if (colon < 0 || entry.includes(":", colon + 1)) return { host: entry };
  return { host: entry.slice(0, colon), port: entry.slice(colon + 1) };
}

/** As in the URL standard: a host whose last part is a number must be an address. */
function looksLikeAddress(host: string): boolean {
  return /[:/]|(^|\.)(\d+|0x[\da-f]*)\.?$/i.test(host);
}

function blockOf(entry: string, host: string): AddressBlock {
  const block = parseBlock(host);
  if (block === undefined) throw refused(entry, "it must be an address or a block like 10.0.0.0/8");
  return block;
}

function nameOf(entry: string, host: string): string {
  const name = host.toLowerCase().replace(/\.$/, "");
  if (!/^[a-z\d_-]{1,63}(\.[a-z\d_-]{1,63})*$/.test(name) || name.length > 253) {
    throw refused(entry, "it must be cidr[:port] or name[:port]");
  }
  return name;
}

function portOf(entry: string, text: string): number {
  const port = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535) throw refused(entry, "its port must be 1 to 65535");
  return port;
}

function refused(entry: string, why: string): RedriveError {
  return new RedriveError("INVALID_ARGUMENT", `allowed target ${quote(entry)}: ${why}`);
}

// Blocked ports: services that a forged HTTP request could talk to: the list of the Fetch standard
// (https://fetch.spec.whatwg.org/#bad-port), which undici enforces in `fetch` only, and databases,
// caches and daemons that often run without a password.

const FETCH_BAD_PORTS = [
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
  103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
  512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
  995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668,
  6669, 6679, 6697, 10_080,
];

/** Docker, MySQL, PostgreSQL, Redis, Elasticsearch, memcached, MongoDB. */
const UNGUARDED_SERVICES = [2375, 3306, 5432, 6379, 9200, 11_211, 27_017];

/** Ports that are reachable only if an allowlist entry names them. */
export const BLOCKED_PORTS: ReadonlySet<number> = new Set([
  ...FETCH_BAD_PORTS,
  ...UNGUARDED_SERVICES,
]);
