/**
 * Address: what kind of place an IP address is, decided on its bytes. A URL can spell one address
 * in a dozen ways, bytes can in one; so only the parser here looks at text. What does not parse
 * has no bytes, and its callers deny it.
 */

/** 4 bytes of IPv4 or 16 of IPv6. An IPv4-mapped IPv6 address is the IPv4 it stands for. */
export type AddressBytes = readonly number[];

/**
 * `public` may be reached by anyone; `loopback` is this machine; `metadata` hands out a cloud's
 * credentials or is link-local; `special` is everything else that is not the open internet.
 */
export type AddressKind = "public" | "loopback" | "metadata" | "special";

/** All addresses that share their first `prefix` bits. */
export interface AddressBlock {
  readonly bytes: AddressBytes;
  readonly prefix: number;
}

/** Bytes of an address as sockets and the URL parser write it, brackets or not; else undefined. */
export function parseAddress(text: string): AddressBytes | undefined {
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  return bare.includes(":") ? unwrapMapped(parseIpv6(bare)) : parseIpv4(bare);
}

/** A block such as `10.0.0.0/8`, or one address; undefined if illegal or not at its beginning. */
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

/** Infinity for what is no prefix, which is longer than any address. */
function parsePrefix(text: string): number {
  return /^(0|[1-9]\d{0,2})$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY;
}

function parseIpv4(text: string): AddressBytes | undefined {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every(isDecimalByte)) return undefined;
  return parts.map(Number);
}

/** No leading zeros: half of the world reads `010` as eight. */
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

/** Bytes of groups between colons; the last group of an address may be a dotted IPv4. */
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
    if (block === undefined) throw new Error(`no block of addresses: ${text}`);
    return block;
  });
}

const LOOPBACK = blocks("127.0.0.0/8", "::1/128");

/** Link-local, where AWS, GCP and Azure answer, and the clouds that answer elsewhere. */
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

/** The only IPv6 unicast that IANA has handed out: what lies outside is denied unread. */
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
