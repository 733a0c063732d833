/**
 * Message pack: writes and reads the part of MessagePack that Redis scripts use. Scripts have a fast
 * native reader and writer for it (`cmsgpack`), and it holds any bytes.
 *
 * Null is written as `false`, because a Lua table cannot hold `nil`.
 */

/** Bytes are written as text, because scripts cannot read the binary type. */
export type Packable = null | number | string | Uint8Array | readonly Packable[];

/** Bytes cannot be told from text, so a message that is read back contains none. */
export type Unpacked = null | number | string | readonly Unpacked[];

const FIRST_SIZE = 16_384;
/** A larger buffer is not kept for the next message. */
const MAX_KEPT_SIZE = 1_048_576;
/** Ids, names and URLs are mostly shorter. */
const MAX_SHORT = 64;
const TWO_32 = 2 ** 32;

let buffer = Buffer.allocUnsafe(FIRST_SIZE);
let length = 0;

export function pack(value: Packable): Buffer {
  length = 0;
  write(value);
  const packed = Buffer.from(buffer.subarray(0, length));
  if (buffer.length > MAX_KEPT_SIZE) buffer = Buffer.allocUnsafe(FIRST_SIZE);
  return packed;
}

function write(value: Packable): void {
  if (typeof value === "number") writeNumber(value);
  else if (typeof value === "string") writeText(value);
  else if (value === null) writeByte(0xc2);
  else if (value instanceof Uint8Array) writeBytes(value);
  else writeList(value);
}

function reserve(bytes: number): void {
  if (length + bytes <= buffer.length) return;
  const larger = Buffer.allocUnsafe(Math.max(buffer.length * 2, length + bytes));
  buffer.copy(larger, 0, 0, length);
  buffer = larger;
}

function writeByte(byte: number): void {
  reserve(1);
  buffer[length++] = byte;
}

function writeHead(type: number, size: number): void {
  reserve(5);
  buffer[length] = type;
  buffer.writeUInt32BE(size, length + 1);
  length += 5;
}

function writeNumber(value: number): void {
  if (value >= 0 && value < 128 && Number.isInteger(value)) writeByte(value);
  else if (value >= 0 && value < TWO_32 && Number.isInteger(value)) writeHead(0xce, value);
  else if (Number.isSafeInteger(value)) writeLong(value);
  else writeDouble(value);
}

function writeLong(value: number): void {
  reserve(9);
  buffer[length] = 0xd3;
  buffer.writeInt32BE(Math.floor(value / TWO_32), length + 1);
  buffer.writeUInt32BE(value >>> 0, length + 5);
  length += 9;
}

function writeDouble(value: number): void {
  reserve(9);
  buffer[length] = 0xcb;
  buffer.writeDoubleBE(value, length + 1);
  length += 9;
}

function writeText(text: string): void {
  if (text.length <= MAX_SHORT && writeAscii(text)) return;
  const size = Buffer.byteLength(text);
  if (size < 32) writeByte(0xa0 | size);
  else writeHead(0xdb, size);
  reserve(size);
  length += buffer.write(text, length);
}

/** For short texts, a loop is faster than a call of the runtime. False, without a change: not ASCII. */
function writeAscii(text: string): boolean {
  const size = text.length;
  reserve(size + 5);
  const start = size < 32 ? length + 1 : length + 5;
  for (let at = 0; at < size; at++) {
    const code = text.charCodeAt(at);
    if (code > 127) return false;
    buffer[start + at] = code;
  }
  if (size < 32) writeByte(0xa0 | size);
  else writeHead(0xdb, size);
  length += size;
  return true;
}

function writeBytes(bytes: Uint8Array): void {
  writeHead(0xdb, bytes.length);
  reserve(bytes.length);
  buffer.set(bytes, length);
  length += bytes.length;
}

function writeList(list: readonly Packable[]): void {
  if (list.length < 16) writeByte(0x90 | list.length);
  else writeHead(0xdd, list.length);
  for (const item of list) write(item);
}

let source: Buffer = buffer;
let position = 0;

/** `false` and `nil` are read as null. */
export function unpack(message: Buffer): Unpacked {
  source = message;
  position = 0;
  return read();
}

/** A message that is a list. */
export function unpackList(message: Buffer): readonly Unpacked[] {
  const list = unpack(message);
  if (!Array.isArray(list)) throw new Error("a stored value is not a list");
  return list;
}

function read(): Unpacked {
  const type = source[position++] as number;
  if (type < 0x80) return type;
  if (type < 0xa0) return readList(type & 0x0f);
  if (type < 0xc0) return readText(type & 0x1f);
  if (type >= 0xe0) return type - 0x100;
  const reader = READERS[type];
  if (reader === undefined) throw new Error(`a stored value has the unknown type ${type}`);
  return reader();
}

function readText(size: number): string {
  position += size;
  return source.toString("utf8", position - size, position);
}

/** An empty Lua table is written as an empty list or as an empty map. */
function readList(size: number): readonly Unpacked[] {
  return Array.from({ length: size }, read);
}

function unsigned(bytes: number): number {
  position += bytes;
  return source.readUIntBE(position - bytes, bytes);
}

function signed(bytes: number): number {
  position += bytes;
  return source.readIntBE(position - bytes, bytes);
}

function float(bytes: number): number {
  position += bytes;
  const at = position - bytes;
  return bytes === 4 ? source.readFloatBE(at) : source.readDoubleBE(at);
}

const READERS: Readonly<Record<number, () => Unpacked>> = {
  192: () => null,
  194: () => null,
  195: () => 1,
  202: () => float(4),
  203: () => float(8),
  204: () => unsigned(1),
  205: () => unsigned(2),
  206: () => unsigned(4),
  207: () => unsigned(4) * TWO_32 + unsigned(4),
  208: () => signed(1),
  209: () => signed(2),
  210: () => signed(4),
  211: () => signed(4) * TWO_32 + unsigned(4),
  217: () => readText(unsigned(1)),
  218: () => readText(unsigned(2)),
  219: () => readText(unsigned(4)),
  220: () => readList(unsigned(2)),
  221: () => readList(unsigned(4)),
};
