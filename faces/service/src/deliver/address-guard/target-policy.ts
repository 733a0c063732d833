/**
 * Target policy: decides where attempts may go. It checks names and ports before a lookup and
 * addresses after it, with the same rules. Everything that no rule allows is denied. This service's
 * own port is always denied, and the metadata services of clouds need an entry for the exact
 * address.
 */
import { networkInterfaces } from "node:os";
import { assertRange, quote, RedriveError } from "@redrive/core";
import { type AddressBytes, isInBlock, kindOf, parseAddress } from "./address.ts";
import type { AllowRule } from "./allowlist.ts";
import { BLOCKED_PORTS } from "./blocked-ports.ts";

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
export interface Endpoint {
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
