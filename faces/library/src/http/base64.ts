/** Base64: bytes as text and back, for JSON and for stores whose clients return text. */

/** Node, Deno and Bun have `Buffer`, which is much faster than `btoa`. */
interface Runtime {
  Buffer?: {
    from(data: ArrayBuffer, offset: number, length: number): { toString(encoding: string): string };
    from(text: string, encoding: string): Uint8Array;
  };
}

/** Characters per call of `fromCharCode`: the number of arguments is limited. */
const CHUNK = 8192;

export function base64Of(bytes: Uint8Array): string {
  const { Buffer } = globalThis as Runtime;
  if (Buffer !== undefined) {
    const { buffer, byteOffset, byteLength } = bytes;
    return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength).toString("base64");
  }
  let binary = "";
  for (let at = 0; at < bytes.length; at += CHUNK) {
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  }
  return btoa(binary);
}

export function bytesOfBase64(text: string): Uint8Array {
  const { Buffer } = globalThis as Runtime;
  if (Buffer !== undefined) return Buffer.from(text, "base64");
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
