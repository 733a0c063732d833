/**
 * SHA-256: one hash over several texts and bytes. Servers have a synchronous hash in `node:crypto`,
 * which is much faster for short inputs than the hash of Web Crypto, the fallback.
 */

export type HashPart = string | Uint8Array;

interface Hash {
  update(data: HashPart): Hash;
  digest(encoding: "hex"): string;
}

interface NodeCrypto {
  createHash(algorithm: string): Hash;
  /** In one call, without an object for the state. Node has it since version 20.12. */
  hash?(algorithm: string, data: Uint8Array, encoding: "hex"): string;
}

/** Node, Deno, Bun and workerd have `getBuiltinModule`. */
interface Runtime {
  process?: { getBuiltinModule?(name: string): NodeCrypto | undefined };
}

/** Undefined until the first hash, and where there is none. */
let nodeCrypto: NodeCrypto | undefined;

/** Parts that fit in here are put together and hashed in one call. */
const SCRATCH_BYTES = 16_384;
let scratch: Uint8Array | undefined;

const ENCODER = /* @__PURE__ */ new TextEncoder();

/**
 * The hash in hexadecimal, or a promise of it. The length of each part is hashed as well, so that parts
 * cannot run into one another: `["ab", "c"]` and `["a", "bc"]` differ.
 */
export function sha256(parts: readonly HashPart[]): string | Promise<string> {
  nodeCrypto ??= (globalThis as Runtime).process?.getBuiltinModule?.("node:crypto");
  return nodeCrypto === undefined ? webSha256(parts) : nodeSha256(nodeCrypto, parts);
}

function nodeSha256({ createHash, hash }: NodeCrypto, parts: readonly HashPart[]): string {
  if (hash !== undefined && maxBytesOf(parts) <= SCRATCH_BYTES) {
    return hash("sha256", putTogether(parts), "hex");
  }
  const stream = createHash("sha256");
  for (const part of parts) stream.update(frame(part)).update(part);
  return stream.digest("hex");
}

/** A character has at most three bytes per code unit, and a frame has at most 32 characters. */
function maxBytesOf(parts: readonly HashPart[]): number {
  let bytes = 0;
  for (const part of parts) bytes += 32 + (typeof part === "string" ? 3 : 1) * part.length;
  return bytes;
}

/** Valid until the next call. */
function putTogether(parts: readonly HashPart[]): Uint8Array {
  scratch ??= new Uint8Array(SCRATCH_BYTES);
  let length = 0;
  let text = "";
  for (const part of parts) {
    text += frame(part);
    if (typeof part === "string") text += part;
    else {
      length += ENCODER.encodeInto(text, scratch.subarray(length)).written;
      scratch.set(part, length);
      length += part.length;
      text = "";
    }
  }
  length += ENCODER.encodeInto(text, scratch.subarray(length)).written;
  return scratch.subarray(0, length);
}

/** A text and its UTF-8 bytes are different parts. */
function frame(part: HashPart): string {
  return typeof part === "string" ? `text ${part.length}:` : `bytes ${part.length}:`;
}

/** The same hash with Web Crypto. */
export async function webSha256(parts: readonly HashPart[]): Promise<string> {
  const blob = new Blob(parts.flatMap((part) => [frame(part), part]) as BlobPart[]);
  const digest = await crypto.subtle.digest("SHA-256", await blob.arrayBuffer());
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
