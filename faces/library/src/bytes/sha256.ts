/**
 * SHA-256: one hash over several texts and bytes. Servers have a synchronous hash in `node:crypto`,
 * which is much faster for short inputs than the hash of Web Crypto, the fallback.
 */

interface Hash {
  update(data: string | Uint8Array): Hash;
  digest(encoding: "hex"): string;
}

/** Node, Deno, Bun and workerd have `getBuiltinModule`. */
interface Runtime {
  process?: {
    getBuiltinModule?(name: string): { createHash(algorithm: string): Hash } | undefined;
  };
}

/**
 * The hash in hexadecimal. The length of each part is hashed as well, so that parts cannot run into
 * one another: `["ab", "c"]` and `["a", "bc"]` differ.
 */
export async function sha256(parts: readonly (string | Uint8Array)[]): Promise<string> {
  const crypto = (globalThis as Runtime).process?.getBuiltinModule?.("node:crypto");
  if (crypto === undefined) return await webSha256(parts);
  const hash = crypto.createHash("sha256");
  for (const part of parts) hash.update(frame(part)).update(part);
  return hash.digest("hex");
}

/** A text and its UTF-8 bytes are different parts. */
function frame(part: string | Uint8Array): string {
  return typeof part === "string" ? `text ${part.length}:` : `bytes ${part.length}:`;
}

/** The same hash with Web Crypto. */
export async function webSha256(parts: readonly (string | Uint8Array)[]): Promise<string> {
  const blob = new Blob(parts.flatMap((part) => [frame(part), part]) as BlobPart[]);
  const digest = await crypto.subtle.digest("SHA-256", await blob.arrayBuffer());
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
