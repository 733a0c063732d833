/** AMQP fields: the types of AMQP 0-9-1 that the arguments of methods and the headers of messages have. */
import { violation } from "../session/broker-answer.ts";

export type TableValue = string | boolean | Table;
export type Table = readonly (readonly [name: string, value: TableValue])[];

export function short(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

export function long(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export function longLong(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}

export function octet(value: number): Buffer {
  return Buffer.from([value]);
}

/** At most 255 bytes; the intake has checked that. */
export function shortString(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([octet(bytes.length), bytes]);
}

export function longString(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([long(bytes.length), bytes]);
}

export function table(entries: Table): Buffer {
  const fields = entries.flatMap(([name, value]) => [shortString(name), tableValue(value)]);
  const bytes = Buffer.concat(fields);
  return Buffer.concat([long(bytes.length), bytes]);
}

/** With the letter of its type. */
function tableValue(value: TableValue): Buffer {
  if (typeof value === "string") return Buffer.concat([Buffer.from("S"), longString(value)]);
  if (typeof value === "boolean") return Buffer.from(["t".charCodeAt(0), value ? 1 : 0]);
  return Buffer.concat([Buffer.from("F"), table(value)]);
}

/** Reads fields in their order. Throws a `BrokerFailure` past the end. */
export class FieldReader {
  readonly #bytes: Buffer;

  // Mutable state.
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  octet(): number {
    return this.#take(1).readUInt8();
  }

  short(): number {
    return this.#take(2).readUInt16BE();
  }

  long(): number {
    return this.#take(4).readUInt32BE();
  }

  longLong(): bigint {
    return this.#take(8).readBigUInt64BE();
  }

  shortString(): string {
    return this.#take(this.octet()).toString();
  }

  longString(): string {
    return this.#take(this.long()).toString();
  }

  /** A table that nobody needs. */
  skipTable(): void {
    this.#take(this.long());
  }

  #take(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw violation("a frame is too short");
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
}
