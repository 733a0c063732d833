/**
 * Address limit: bounds the open connections of one remote address, so that one machine cannot use
 * all connections of the server. Connections from this machine are not limited: a reverse proxy may
 * run here. An IPv6 client has a whole /64, so that counts as one address.
 */
import { kindOf, parseAddress } from "../../deliver/address-guard/address.ts";

/** The bytes of an IPv6 address that name its /64. */
const NETWORK_BYTES = 8;

export class AddressLimit {
  readonly #max: number;
  /** Mutable state: open connections by address; no entry stays without a connection. */
  readonly #counts = new Map<string, number>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a connection and returns a function for its end; undefined if there are too many. */
  enter(address: string | undefined): (() => void) | undefined {
    const key = keyOf(address);
    if (key === undefined) return () => {};
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.#max) return undefined;
    this.#counts.set(key, count + 1);
    return () => this.#leave(key);
  }

  /** The addresses that have a connection. */
  get size(): number {
    return this.#counts.size;
  }

  #leave(key: string): void {
    const count = (this.#counts.get(key) ?? 1) - 1;
    if (count === 0) this.#counts.delete(key);
    else this.#counts.set(key, count);
  }
}

/** Undefined for an address that is not limited. A socket that is closed already has no address. */
function keyOf(address: string | undefined): string | undefined {
  const bytes = parseAddress(address?.replace(/%.*$/u, "") ?? "");
  if (bytes === undefined || kindOf(bytes) === "loopback") return undefined;
  return bytes.slice(0, NETWORK_BYTES).join(".");
}
