/**
 * Target: the checks of a target URL that need no network, made when a task is created and again
 * at every attempt. The text is judged before it is parsed, since the URL parser silently repairs
 * what an attacker wrote; after it, only what the parser made of it counts.
 */
import { parseAddress } from "./address.ts";
import { mayLookUp, mayReach, type TargetPolicy } from "./target-policy.ts";

/** A target that may be attempted, taken apart as an attempt needs it. */
export interface Target {
  readonly ok: true;
  /** As the parser spells it, without its fragment. */
  readonly url: string;
  /** Scheme, host and port: the default destination of a task. */
  readonly origin: string;
  /** Path and query. */
  readonly path: string;
}

export interface RefusedTarget {
  readonly ok: false;
  /** `malformed` is a caller's mistake (400), `denied` the operator's will (422). */
  readonly kind: "malformed" | "denied";
  readonly message: string;
}

/** In bytes of UTF-8. */
const MAX_URL = 2048;

const MAX_NAME = 253;
const LABEL = /^[a-z\d_-]{1,63}$/;

/** The verdict on a target URL. Never throws, whatever the text. */
export function checkTarget(text: string, policy: TargetPolicy): Target | RefusedTarget {
  const wrong = wrongText(text);
  if (wrong !== undefined) return { ok: false, kind: "malformed", message: wrong };
  const url = parseUrl(text);
  if (url === undefined)
    return { ok: false, kind: "malformed", message: "targetUrl is no legal URL" };
  return checkUrl(url, policy);
}

function wrongText(text: string): string | undefined {
  if (typeof text !== "string") return "targetUrl must be a text";
  if (Buffer.byteLength(text) > MAX_URL) {
    return `targetUrl must be at most ${MAX_URL} bytes, got ${Buffer.byteLength(text)}`;
  }
  if (hasControl(text)) return "targetUrl must have no space or control character";
  if (text.includes("\\")) return "targetUrl must have no backslash";
  if (!/^https?:\/\/[^/]/i.test(text)) return "targetUrl must begin with http:// or https://";
  const authority = /^[^/]*\/\/([^/?#]*)/.exec(text)?.[1] ?? "";
  return authority.includes("@")
    ? "targetUrl must have no user or password: use headers"
    : undefined;
}

/** Space, C0, DEL and C1: the parser drops some of them, so that `loc\tal\nhost` is localhost. */
function hasControl(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code <= 0x20 || (code >= 0x7f && code <= 0xa0)) return true;
  }
  return false;
}

function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

function checkUrl(url: URL, policy: TargetPolicy): Target | RefusedTarget {
  const { hostname: name } = url;
  const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
  const isAddress = parseAddress(name) !== undefined;
  if (port === 0 || !(isAddress || isLegalName(name))) {
    const message = port === 0 ? "targetUrl must have no port 0" : "targetUrl has an illegal host";
    return { ok: false, kind: "malformed", message };
  }
  const allowed = isAddress
    ? mayReach(policy, { address: name, name, port })
    : mayLookUp(policy, name, port);
  return allowed ? targetOf(url) : { ok: false, kind: "denied", message: deniedText(url.host) };
}

/** Says what was asked for, never what it resolved to: internal DNS is not to be mapped by it. */
export function deniedText(host: string): string {
  return `target ${host} is not allowed: see REDRIVE_ALLOW_TARGETS`;
}

function isLegalName(name: string): boolean {
  const bare = name.replace(/\.$/, "");
  return bare.length <= MAX_NAME && bare.split(".").every((label) => LABEL.test(label));
}

function targetOf(url: URL): Target {
  url.hash = "";
  const path = `${url.pathname}${url.search}`;
  return { ok: true, url: url.href, origin: url.origin, path };
}
