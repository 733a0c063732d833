/**
 * Sessions: signs a browser in with a cookie, because an `EventSource` cannot send an API key. The
 * cookie names the key, never contains it, and is signed. It is checked against the key of that moment,
 * so a revoked key ends its sessions. Nodes with the same secret accept each other's sessions.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { KeyRecord, KeyStore } from "./keys.ts";

export const SESSION_COOKIE = "redrive_session";

/** A person signs in once per working day. */
export const SESSION_MS = 12 * 3_600_000;

const SESSION = /^([A-Za-z0-9]{1,32})\.(\d{1,16})\.([A-Za-z0-9_-]{43})$/;
/** A browser sends one cookie; more than this is an attack. */
const MAX_COOKIES = 8192;

export class Sessions {
  readonly #secret: Uint8Array;

  /** `secret`: at least 32 bytes that nobody else knows. */
  constructor(secret: Uint8Array) {
    if (secret.length < 32)
      throw new Error(`a session secret needs 32 bytes, got ${secret.length}`);
    this.#secret = secret;
  }

  /** The value of the cookie, and when it expires: with the key, if that is earlier. */
  create(record: KeyRecord, now: number): { readonly value: string; readonly expiresAt: number } {
    const expiresAt = Math.min(now + SESSION_MS, record.expiresAt ?? Number.POSITIVE_INFINITY);
    const mac = this.#mac(record, expiresAt).toString("base64url");
    return { value: `${record.keyId}.${expiresAt}.${mac}`, expiresAt };
  }

  /** The key of a session; undefined: the session is not valid, or its key is not any more. */
  verify(keys: KeyStore, value: string, now: number): KeyRecord | undefined {
    const [, keyId = "", expiry = "", mac = ""] = SESSION.exec(value) ?? [];
    const record = keys.find(keyId);
    if (record === undefined) return undefined;
    const expiresAt = Number(expiry);
    const isRight = timingSafeEqual(Buffer.from(mac, "base64url"), this.#mac(record, expiresAt));
    const isLive = now < Math.min(expiresAt, record.expiresAt ?? Number.POSITIVE_INFINITY);
    return isRight && isLive ? record : undefined;
  }

  /** With the hash of the key, so that another key under the same id does not inherit the session. */
  #mac({ keyId, secretHash }: KeyRecord, expiresAt: number): Buffer {
    const text = `redrive session\n${keyId}\n${secretHash}\n${expiresAt}`;
    return createHmac("sha256", this.#secret).update(text).digest();
  }
}

/** The session of a request; undefined: it has none. */
export function sessionIn(cookies: string | undefined): string | undefined {
  if (cookies === undefined || cookies.length > MAX_COOKIES) return undefined;
  for (const cookie of cookies.split(";")) {
    const at = cookie.indexOf("=");
    if (cookie.slice(0, at).trim() === SESSION_COOKIE) return cookie.slice(at + 1).trim();
  }
  return undefined;
}

/** `isSecure`: the page was loaded over https. `maxAgeMs` 0 removes the cookie. */
export function sessionCookie(value: string, maxAgeMs: number, isSecure: boolean): string {
  const age = `Max-Age=${Math.max(0, Math.floor(maxAgeMs / 1000))}`;
  const parts = [`${SESSION_COOKIE}=${value}`, "Path=/", age, "HttpOnly", "SameSite=Strict"];
  return [...parts, ...(isSecure ? ["Secure"] : [])].join("; ");
}
