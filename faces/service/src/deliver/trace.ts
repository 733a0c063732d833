/**
 * Trace: creates the W3C `traceparent` of an attempt that has none, so that a target can correlate
 * its log with ours.
 */
import { systemBytes } from "@redrive/core";

/** Random lower-case hex of the given number of bytes. Injected, like all randomness. */
export type HexSource = (bytes: number) => string;

/** Version 00, a 16-byte trace id, an 8-byte span id, sampled. */
export function newTraceparent(hex: HexSource): string {
  const digits = hex(24);
  return `00-${digits.slice(0, 32)}-${digits.slice(32)}-01`;
}

/** True for a valid value (W3C Trace Context, any version of this format). */
export function isTraceparent(text: string): boolean {
  return /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/.test(text);
}

/** Drawn and converted in bulk; doing so per attempt would cost as much as the attempt. */
const POOL_BYTES = 6144;

/** The system's random source. Suitable for ids, not for keys. */
export function cryptoHex(): HexSource {
  let digits = "";
  let used = 0;
  return (bytes) => {
    if (used + bytes * 2 > digits.length) {
      digits = Buffer.from(systemBytes(Math.max(POOL_BYTES, bytes))).toString("hex");
      used = 0;
    }
    used += bytes * 2;
    return digits.slice(used - bytes * 2, used);
  };
}
