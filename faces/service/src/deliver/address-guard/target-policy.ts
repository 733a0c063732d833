/**
 * Target policy: where attempts may go. Names and ports are judged before a lookup, addresses after
 * it, and both by the same rules; whatever no rule opens is shut. This service's own port and the
 * metadata services of clouds stay shut whatever range an operator opens.
 */
import { networkInterfaces } from "node:os";
import { assertRange, quote, RedriveError } from "@redrive/core";
import { type AddressBytes, isInBlock, kindOf, parseAddress } from "./address.ts";
import type { AllowRule } from "./allowlist.ts";
import { BLOCKED_PORTS } from "./blocked-ports.ts";

/** `public`: the open internet. `loopback`: that and this machine, for development. */
export type TargetMode = "public" | "loopback";

/** Where this process listens. Without an address, or with 0.0.0.0 or ::, on all it has. */
export interface ListenAddress {
  readonly address?: string;
  readonly port: number;
}

export interface TargetPolicyOptions {
  /** What is open without an entry of the allowlist. Default: `public`. */
  readonly mode?: TargetMode;
  /** Exceptions, from `parseAllowlist`. Default: none. */
  readonly allow?: readonly AllowRule[];
  /** Denied always: a task that calls its own service multiplies. Default: none. */
  readonly own?: readonly ListenAddress[];
  /** Addresses of this machine, for an `own` without address. Default: those of its interfaces. */
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

/** Checks the options; throws `INVALID_ARGUMENT` for an address or a port that is none. */
export function createTargetPolicy(options: TargetPolicyOptions = {}): TargetPolicy {
  const { mode = "public", allow = [], own = [], machine = interfaceAddresses() } = options;
  return { mode, allow, own: own.map(listenerOf), machine: machine.map(bytesOf) };
}

/** Whether a name may be looked up for a port. Its addresses are judged after the lookup. */
export function mayLookUp(policy: TargetPolicy, name: string, port: number): boolean {
  const bare = bareName(name);
  const rules = policy.allow.filter((rule) => rule.name === undefined || rule.name === bare);
  if (BLOCKED_PORTS.has(port) && !rules.some((rule) => rule.port === port)) return false;
  if (!isInternalName(bare)) return true;
  if (policy.mode === "loopback" && isLocalhost(bare)) return true;
  return rules.some((rule) => rule.name === bare && opensPort(rule, port));
}

/** A place that an attempt is about to reach, or has reached. */
export interface Endpoint {
  /** As sockets and lookups report it; undefined, as a dead socket does, is denied. */
  readonly address: string | undefined;
  /** The host of the URL: a name, or the address itself. */
  readonly name: string;
  readonly port: number;
}

/** Whether a connection to this address may be used. Fails closed on what does not parse. */
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

/** All loopback addresses count as one: which of them a listener hears differs by system. */
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

/** Names that by custom or by RFC 6761, 6762 and 8375 never leave a network, and single labels. */
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
