/**
 * Target: checks a target URL without the network, when a task is created and again at every
 * attempt. It checks the text before parsing, because the URL parser silently repairs malicious
 * input. After parsing, only the parsed URL counts.
 */
import { quote } from "@redrive/core";
import { parseAddress } from "./address.ts";
import { type BrokerPlace, brokerPlace } from "./broker-target.ts";
import { mayLookUp, mayReach, type TargetPolicy } from "./target-policy.ts";
import { parseTargetUrl, SCHEME_NAMES, type TargetUrl } from "./target-url.ts";

/** An allowed target, split into the parts that an attempt needs. */
export interface Target {
  readonly ok: true;
  /** As the parser writes it, without the fragment. */
  readonly url: string;
  /** Scheme, host and port: the default destination of a task. */
  readonly origin: string;
  /** Path and query. */
  readonly path: string;
  /** Where to connect for a gRPC call; undefined: it is none. */
  readonly grpc: ServerEndpoint | undefined;
  /** Where to publish a message; undefined: the target is no broker. */
  readonly broker: BrokerTarget | undefined;
}

export interface BrokerTarget {
  readonly endpoint: ServerEndpoint;
  readonly place: BrokerPlace;
}

/** The server of a target that is not called with HTTP/1.1. */
export interface ServerEndpoint {
  /** A name, or an address without brackets. */
  readonly name: string;
  readonly port: number;
  readonly isTls: boolean;
}

export interface RefusedTarget {
  readonly ok: false;
  /** `malformed` is the caller's mistake (400); `denied` is the operator's policy (422). */
  readonly kind: "malformed" | "denied";
  readonly message: string;
}

/** In bytes of UTF-8. */
const MAX_URL = 2048;

const MAX_NAME = 253;
const LABEL = /^[a-z\d_-]{1,63}$/;

/** Checks a target URL. Never throws. */
export function checkTarget(text: string, policy: TargetPolicy): Target | RefusedTarget {
  const wrong = wrongText(text);
  if (wrong !== undefined) return malformed(wrong);
  const target = parseTargetUrl(text);
  if (target === undefined) return malformed("targetUrl is not a valid URL");
  const found = targetOf(target);
  return found.ok ? (refusedHost(target, policy) ?? found) : found;
}

function targetOf(target: TargetUrl): Target | RefusedTarget {
  switch (target.scheme) {
    case "http":
      return httpTarget(target);
    case "grpc":
      return grpcTarget(target);
    default:
      return brokerTarget(target);
  }
}

function malformed(message: string): RefusedTarget {
  return { ok: false, kind: "malformed", message };
}

/** At least a service and a method; a proxy may add a prefix. */
const METHOD_PATH = /^(\/[\w.~-]+){2,}$/;

function wrongMethodPath({ pathname, search }: URL): string | undefined {
  if (search !== "") return "targetUrl must have no query, because a gRPC call has none";
  if (METHOD_PATH.test(pathname)) return undefined;
  const got = quote(pathname);
  return `targetUrl must have a gRPC method as path, such as /package.Service/Method, got ${got}`;
}

function wrongText(text: string): string | undefined {
  if (typeof text !== "string") return "targetUrl must be a string";
  if (Buffer.byteLength(text) > MAX_URL) {
    return `targetUrl must be at most ${MAX_URL} bytes, got ${Buffer.byteLength(text)}`;
  }
  if (hasControl(text)) return "targetUrl must have no space or control character";
  if (text.includes("\\")) return "targetUrl must have no backslash";
  if (!BEGINNING.test(text)) return `targetUrl must begin with ${SCHEME_TEXT}`;
  const authority = /^[^/]*\/\/([^/?#]*)/.exec(text)?.[1] ?? "";
  if (!authority.includes("@")) return undefined;
  return /^(http|grpc)/i.test(text)
    ? "targetUrl must have no user or password: use headers"
    : BROKER_PASSWORD;
}

const BEGINNING = new RegExp(`^(${SCHEME_NAMES.join("|")})://[^/]`, "i");
const SCHEME_TEXT = SCHEME_NAMES.map((name) => `${name}://`)
  .join(", ")
  .replace(/, (?=[^,]*$)/, " or ");

const BROKER_PASSWORD =
  "targetUrl must have no user or password, because URLs are shown: use the header Authorization: Basic with the Base64 of user:password";

/**
 * Space, C0, DEL and C1: the parser drops some of them, so `loc\tal\nhost` would become localhost.
 */
function hasControl(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code <= 0x20 || (code >= 0x7f && code <= 0xa0)) return true;
  }
  return false;
}

/** Undefined: the host is valid, and it may be called. */
function refusedHost(
  { url, port, host }: TargetUrl,
  policy: TargetPolicy,
): RefusedTarget | undefined {
  const { hostname: name } = url;
  const isAddress = parseAddress(name) !== undefined;
  if (port === 0) return malformed("targetUrl must have no port 0");
  if (!(isAddress || isLegalName(name))) return malformed("targetUrl has an invalid host");
  const allowed = isAddress
    ? mayReach(policy, { address: name, name, port })
    : mayLookUp(policy, name, port);
  return allowed ? undefined : { ok: false, kind: "denied", message: deniedText(host) };
}

/** Names the requested host, never its addresses, so that nobody can map the internal DNS. */
export function deniedText(host: string): string {
  return `target ${host} is not allowed: see REDRIVE_ALLOW_TARGETS`;
}

function isLegalName(name: string): boolean {
  const bare = name.replace(/\.$/, "");
  return bare.length <= MAX_NAME && bare.split(".").every((label) => LABEL.test(label));
}

function httpTarget({ url, origin }: TargetUrl): Target {
  url.hash = "";
  const path = `${url.pathname}${url.search}`;
  return { ok: true, url: url.href, origin, path, grpc: undefined, broker: undefined };
}

function grpcTarget(target: TargetUrl): Target | RefusedTarget {
  const { url, origin } = target;
  const wrongPath = wrongMethodPath(url);
  if (wrongPath !== undefined) return malformed(wrongPath);
  const path = url.pathname;
  const grpc = endpointOf(target);
  return { ok: true, url: `${origin}${path}`, origin, path, grpc, broker: undefined };
}

function brokerTarget(target: TargetUrl): Target | RefusedTarget {
  const { url, origin } = target;
  const place = brokerPlace(target);
  if (typeof place === "string") return malformed(place);
  const path = `${url.pathname}${url.search}`;
  const broker = { endpoint: endpointOf(target), place };
  return { ok: true, url: `${origin}${path}`, origin, path, grpc: undefined, broker };
}

function endpointOf({ url, port, isTls }: TargetUrl): ServerEndpoint {
  return { name: url.hostname.replace(/^\[(.*)\]$/, "$1"), port, isTls };
}
