/**
 * Trace: the W3C `traceparent` of an attempt that was handed none, so that a target can always
 * join its log to ours.
 */
import { systemBytes } from "@redrive/core";

/** Random lower-case hex of so many bytes: a capability, as all chance is. */
export type HexSource = (bytes: number) => string;

/** Version 00, a trace of 16 bytes, a span of 8, sampled. */
export function newTraceparent(hex: HexSource): string {
  const digits = hex(24);
  return `00-${digits.slice(0, 32)}-${digits.slice(32)}-01`;
}

/** True for one that a target can read (W3C Trace Context, any version of this shape). */
export function isTraceparent(text: string): boolean {
  return /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/.test(text);
}

/** Drawn and spelled at once, since doing so for each attempt costs as much as the attempt. */
const POOL_BYTES = 6144;

/** The machine's own chance. Good for ids, not for keys. */
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
