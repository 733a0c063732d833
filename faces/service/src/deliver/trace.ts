/**
 * Trace: the W3C `traceparent` of an attempt. All attempts of a task have one trace id: that of the
 * caller, or the task's own id. Each attempt is a span of its own.
 */
import { systemBytes } from "@redrive/core";

/** Random lower-case hex of the given number of bytes. Injected, like all randomness. */
export type HexSource = (bytes: number) => string;

/** A UUID has as many digits as a trace id. */
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

/**
 * The `traceparent` of one attempt: version 00, the trace id and the flags of the caller's valid
 * `traceparent`, or the task's id and sampled, with a new span id.
 */
export function attemptTraceparent(
  parent: string | undefined,
  taskId: string,
  hex: HexSource,
): string {
  if (parent !== undefined) return `00-${parent.slice(3, 35)}-${hex(8)}-${parent.slice(53, 55)}`;
  const traceId = UUID.test(taskId) ? withoutHyphens(taskId) : hex(16);
  return `00-${traceId}-${hex(8)}-01`;
}

function withoutHyphens(uuid: string): string {
  const start = uuid.slice(0, 8) + uuid.slice(9, 13) + uuid.slice(14, 18);
  return start + uuid.slice(19, 23) + uuid.slice(24);
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
