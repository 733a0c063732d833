/**
 * Kafka wire: the encoding of Kafka's protocol, as far as `kafka.ts` answers it: numbers, texts, arrays, and
 * record batches of magic 2.
 */

export class WireReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  #take(size: number): number {
    this.#at += size;
    return this.#at - size;
  }

  int8(): number {
    return this.#bytes.readInt8(this.#take(1));
  }

  int16(): number {
    return this.#bytes.readInt16BE(this.#take(2));
  }

  int32(): number {
    return this.#bytes.readInt32BE(this.#take(4));
  }

  int64(): number {
    return Number(this.#bytes.readBigInt64BE(this.#take(8)));
  }

  /** A number of a record: zigzag, seven bits per byte. */
  varint(): number {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = BigInt(this.#bytes.readUInt8(this.#take(1)));
      value |= (byte & 127n) << shift;
      if (byte < 128n) return Number((value >> 1n) ^ -(value & 1n));
    }
  }

  text(): string {
    return this.nullableText() ?? "";
  }

  nullableText(): string | null {
    const size = this.int16();
    return size < 0 ? null : this.slice(size).toString("utf8");
  }

  bytes(): Buffer | null {
    const size = this.int32();
    return size < 0 ? null : this.slice(size);
  }

  varbytes(): Buffer | null {
    const size = this.varint();
    return size < 0 ? null : this.slice(size);
  }

  slice(size: number): Buffer {
    const from = this.#take(size);
    return this.#bytes.subarray(from, from + size);
  }

  array<Item>(item: () => Item): Item[] {
    return Array.from({ length: Math.max(0, this.int32()) }, item);
  }
}

export class WireWriter {
  readonly #parts: Buffer[] = [];

  #add(size: number, write: (bytes: Buffer) => void): this {
    const bytes = Buffer.alloc(size);
    write(bytes);
    this.#parts.push(bytes);
    return this;
  }

  int8(value: number): this {
    return this.#add(1, (bytes) => bytes.writeInt8(value));
  }

  int16(value: number): this {
    return this.#add(2, (bytes) => bytes.writeInt16BE(value));
  }

  int32(value: number): this {
    return this.#add(4, (bytes) => bytes.writeInt32BE(value));
  }

  int64(value: number): this {
    return this.#add(8, (bytes) => bytes.writeBigInt64BE(BigInt(value)));
  }

  text(value: string | null): this {
    if (value === null) return this.int16(-1);
    const bytes = Buffer.from(value);
    this.int16(bytes.length);
    this.#parts.push(bytes);
    return this;
  }

  bytes(value: Buffer | null): this {
    if (value === null) return this.int32(-1);
    this.int32(value.length);
    this.#parts.push(value);
    return this;
  }

  array<Item>(items: readonly Item[], write: (item: Item) => void): this {
    this.int32(items.length);
    for (const item of items) write(item);
    return this;
  }

  done(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

/** A batch as a producer sent it, with its place in the log. */
export interface StoredBatch {
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly bytes: Buffer;
}

/** From the start of a batch. */
const LENGTH_AT = 8;
const LAST_DELTA_AT = 23;
const BASE_TIMESTAMP_AT = 27;
const COUNT_AT = 57;
const RECORDS_AT = 61;

/** Splits what a producer sent, and gives the batches their offsets. The checksum does not cover them. */
export function storeBatches(records: Buffer, nextOffset: number): StoredBatch[] {
  const stored: StoredBatch[] = [];
  let at = 0;
  let next = nextOffset;
  while (at < records.length) {
    const size = LENGTH_AT + 4 + records.readInt32BE(at + LENGTH_AT);
    const bytes = Buffer.from(records.subarray(at, at + size));
    bytes.writeBigInt64BE(BigInt(next));
    const lastOffset = next + bytes.readInt32BE(LAST_DELTA_AT);
    stored.push({ baseOffset: next, lastOffset, bytes });
    next = lastOffset + 1;
    at += size;
  }
  return stored;
}

export interface WireRecord {
  readonly offset: number;
  readonly timestamp: number;
  readonly key: string | undefined;
  readonly value: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

/** The records of an uncompressed batch. */
export function recordsOf({ baseOffset, bytes }: StoredBatch): WireRecord[] {
  const baseTimestamp = Number(bytes.readBigInt64BE(BASE_TIMESTAMP_AT));
  const reader = new WireReader(bytes.subarray(RECORDS_AT));
  return Array.from({ length: bytes.readInt32BE(COUNT_AT) }, () => {
    reader.varint();
    reader.int8();
    const timestamp = baseTimestamp + reader.varint();
    const offset = baseOffset + reader.varint();
    const key = reader.varbytes()?.toString();
    const value = reader.varbytes()?.toString();
    const headers: Record<string, string> = {};
    for (let count = reader.varint(); count > 0; count--) {
      const name = reader.varbytes()?.toString() ?? "";
      headers[name] = reader.varbytes()?.toString() ?? "";
    }
    return { offset, timestamp, key, value, headers };
  });
}
