/**
 * Allowlist: exceptions to the address guard, as the operator writes them in
 * `REDRIVE_ALLOW_TARGETS`: `cidr[:port]` or `name[:port]`, separated by commas. A wrong entry stops
 * the start, since a rule that silently means nothing is found out by an outage.
 */
import { quote, RedriveError } from "@redrive/core";
import { type AddressBlock, parseBlock } from "./address.ts";

/** Either a block of addresses or one name, on one port or on all but the blocked ones. */
export interface AllowRule {
  readonly block?: AddressBlock;
  /** Lower case, without a dot at its end. Stands for whatever addresses it resolves to. */
  readonly name?: string;
  readonly port?: number;
}

/** Reads the list; throws `INVALID_ARGUMENT` that quotes the first wrong entry. "" is no entry. */
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

/** `[v6]:port`, `v4:port` or `name:port`; an IPv6 without brackets has no port. */
function splitPort(entry: string): { readonly host: string; readonly port?: string | undefined } {
  const bracketed = /^\[([^\]]*)\](?::(.*))?$/.exec(entry);
  if (bracketed) return { host: bracketed[1] ?? "", port: bracketed[2] };
  const colon = entry.indexOf(":");
  if (colon < 0 || entry.includes(":", colon + 1)) return { host: entry };
  return { host: entry.slice(0, colon), port: entry.slice(colon + 1) };
}

/** As the URL standard has it: a host whose last part is a number is an address or nothing. */
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
