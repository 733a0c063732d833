/**
 * Ids: UUIDv7 (RFC 9562), so that tasks sort by age. Within a millisecond a counter keeps the
 * order.
 */
import { invalidArgument } from "@redrive/core";

/** Fills the array with cryptographically random bytes. */
export type FillRandom = (bytes: Uint8Array) => void;

/**
 * A new id for that instant. Ids of one source strictly increase. `partitionByte`: see
 * `partition.ts`. Default: random.
 */
export type NewId = (now: number, partitionByte?: number) => string;

const POOL_BYTES = 8192;
/** Of 128 bits, 48 are the instant, 18 the counter and version, 8 the partition; the rest is random. */
const RANDOM_BYTES = 8;
const COUNTER_END = 4096;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export function uuidV7(fill: FillRandom): NewId {
  const pool = new Uint8Array(POOL_BYTES);
  let used = POOL_BYTES;
  let lastAt = 0;
  let counter = 0;
  /** The digits of `textAt`. Formatting a number of this size costs more than the rest of an id. */
  let text = "";
  let textAt = -1;

  return (now, partitionByte) => {
    if (now > lastAt) {
      lastAt = now;
      counter = 0;
    } else if (++counter === COUNTER_END) {
      // More than 4096 ids in a millisecond: use the next millisecond.
      lastAt++;
      counter = 0;
    }
    if (used + RANDOM_BYTES > POOL_BYTES) {
      fill(pool);
      used = 0;
    }
    if (textAt !== lastAt) {
      textAt = lastAt;
      const time = lastAt.toString(16).padStart(12, "0");
      text = `${time.slice(0, 8)}-${time.slice(8)}`;
    }
    const sequence = (0x7000 + counter).toString(16);
    const random = tail(pool, used, partitionByte);
    used += RANDOM_BYTES;
    return `${text}-${sequence}-${random}`;
  };
}

function tail(pool: Uint8Array, at: number, partitionByte: number | undefined): string {
  const variant = HEX[((pool[at] ?? 0) & 0x3f) | 0x80];
  const partition = HEX[(partitionByte ?? pool[at + 1] ?? 0) & 0xff];
  let rest = "";
  for (let next = at + 2; next < at + RANDOM_BYTES; next++) rest += HEX[pool[next] ?? 0];
  return `${variant}${partition}-${rest}`;
}

/** Throws `INVALID_ARGUMENT` unless all are strings; a store would fail on any other value. */
export function assertIds(ids: Readonly<Record<string, unknown>>): void {
  for (const [name, id] of Object.entries(ids)) {
    if (typeof id !== "string") throw invalidArgument(`${name} must be a string`, id);
  }
}
