/**
 * Target: checks a target URL without the network, when a task is created and again at every
 * attempt. It checks the text before parsing, because the URL parser silently repairs malicious
 * input. After parsing, only the parsed URL counts.
 */
import { quote } from "@redrive/core";
import { parseAddress } from "./address.ts";
import { mayLookUp, mayReach, type TargetPolicy } from "./target-policy.ts";

/** An allowed target, split into the parts that an attempt needs. */
export interface Target {
  readonly ok: true;
  /** As the parser writes it, without the fragment. */
  readonly url: string;
  /** Scheme, host and port: the default destination of a task. */
  readonly origin: string;
  /** Path and query. */
  readonly path: string;
  /** Where to connect for a gRPC call; undefined: the target is called with HTTP/1.1. */
  readonly grpc: GrpcEndpoint | undefined;
}

/** The server of a `grpc:` or `grpcs:` target. */
export interface GrpcEndpoint {
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
  if (wrong !== undefined) return { ok: false, kind: "malformed", message: wrong };
  const url = parseTargetUrl(text);
  if (url === undefined) return malformed("targetUrl is not a valid URL");
  const isGrpc = /^grpc/i.test(text);
  const wrongPath = isGrpc ? wrongMethodPath(url) : undefined;
  return wrongPath === undefined ? checkUrl(url, isGrpc, policy) : malformed(wrongPath);
}

/**
 * Parses a URL of a target. `grpc:` and `grpcs:` become `http:` and `https:`, because the parser
 * normalizes the host only of schemes that it knows: it would not recognize `grpc://0x7f.1` as an
 * address.
 */
export function parseTargetUrl(text: string): URL | undefined {
  try {
    return new URL(text.replace(/^grpc(s?):/i, "http$1:"));
  } catch {
    return undefined;
  }
}

export function portOf({ port, protocol }: URL): number {
  return Number(port || (protocol === "https:" ? 443 : 80));
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
  if (!/^(https?|grpcs?):\/\/[^/]/i.test(text)) {
    return "targetUrl must begin with http://, https://, grpc:// or grpcs://";
  }
  const authority = /^[^/]*\/\/([^/?#]*)/.exec(text)?.[1] ?? "";
  return authority.includes("@")
    ? "targetUrl must have no user or password: use headers"
    : undefined;
}

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

function checkUrl(url: URL, isGrpc: boolean, policy: TargetPolicy): Target | RefusedTarget {
  const { hostname: name } = url;
  const port = portOf(url);
  const isAddress = parseAddress(name) !== undefined;
  if (port === 0) return malformed("targetUrl must have no port 0");
  if (!(isAddress || isLegalName(name))) return malformed("targetUrl has an invalid host");
  const allowed = isAddress
    ? mayReach(policy, { address: name, name, port })
    : mayLookUp(policy, name, port);
  if (!allowed) return { ok: false, kind: "denied", message: deniedText(url.host) };
  return isGrpc ? grpcTargetOf(url, port) : targetOf(url);
}

/** Names the requested host, never its addresses, so that nobody can map the internal DNS. */
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
  return { ok: true, url: url.href, origin: url.origin, path, grpc: undefined };
}

function grpcTargetOf({ protocol, host, hostname, pathname: path }: URL, port: number): Target {
  const isTls = protocol === "https:";
  const origin = `${isTls ? "grpcs" : "grpc"}://${host}`;
  const name = hostname.replace(/^\[(.*)\]$/, "$1");
  return { ok: true, url: `${origin}${path}`, origin, path, grpc: { name, port, isTls } };
}
