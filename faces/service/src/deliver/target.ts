/**
 * Target: checks a target URL without the network, when a task is created and again at every
 * attempt. It checks the text before parsing, because the URL parser silently repairs malicious
 * input. After parsing, only the parsed URL counts.
 */
import { nearestName, quote } from "@redrive/core";
import { mayLookUp, mayReach, parseAddress, type TargetPolicy } from "./address-guard.ts";

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

interface BrokerTarget {
  readonly endpoint: ServerEndpoint;
  readonly place: BrokerPlace;
}

/** The server of a target that is not called with HTTP/1.1. */
interface ServerEndpoint {
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

interface SchemeTraits {
  readonly scheme: TargetScheme;
  readonly isTls: boolean;
  readonly impliedPort: number;
}

const SCHEMES: ReadonlyMap<string, SchemeTraits> = new Map([
  ["http", { scheme: "http", isTls: false, impliedPort: 80 }],
  ["https", { scheme: "http", isTls: true, impliedPort: 443 }],
  ["grpc", { scheme: "grpc", isTls: false, impliedPort: 80 }],
  ["grpcs", { scheme: "grpc", isTls: true, impliedPort: 443 }],
  ["amqp", { scheme: "amqp", isTls: false, impliedPort: 5672 }],
  ["amqps", { scheme: "amqp", isTls: true, impliedPort: 5671 }],
  ["redis-stream", { scheme: "redis-stream", isTls: false, impliedPort: 6379 }],
  ["rediss-stream", { scheme: "redis-stream", isTls: true, impliedPort: 6379 }],
]);

/** The schemes of targets. */
const SCHEME_NAMES: readonly string[] = [...SCHEMES.keys()];

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

// Target URL: parses the URL of a target by its scheme. Every scheme becomes `http:` or `https:`
// first, because the parser normalizes the host only of schemes that it knows: it would not
// recognize `grpc://0x7f.1` as an address.

/** How a target is called, without and with TLS. */
type TargetScheme = "http" | "grpc" | "amqp" | "redis-stream";

export interface TargetUrl {
  /** With the scheme `http:` or `https:`. */
  readonly url: URL;
  readonly scheme: TargetScheme;
  readonly isTls: boolean;
  /** The one in the URL, otherwise the one that the scheme implies. */
  readonly port: number;
  /** With the port, unless the scheme implies it. */
  readonly host: string;
  /** Scheme and host. */
  readonly origin: string;
}

/** Undefined: the scheme is unknown, or the URL is malformed. */
export function parseTargetUrl(text: string): TargetUrl | undefined {
  const [written = ""] = /^[a-z-]+(?=:)/i.exec(text) ?? [];
  const name = written.toLowerCase();
  const traits = SCHEMES.get(name);
  const known = `${traits?.isTls ? "https" : "http"}${text.slice(name.length)}`;
  if (traits === undefined || !URL.canParse(known)) return undefined;
  const { scheme, isTls, impliedPort } = traits;
  const url = new URL(known);
  const port = Number(url.port || writtenPort(text) || impliedPort);
  const host = port === impliedPort ? url.hostname : `${url.hostname}:${port}`;
  return { url, scheme, isTls, port, host, origin: `${name}://${host}` };
}

/** The parser drops a port that `http:` or `https:` implies, although another scheme does not. */
function writtenPort(text: string): string | undefined {
  return /^[^/]*\/\/[^/?#]*:(\d+)(?:[/?#]|$)/.exec(text)?.[1];
}

// Broker target: where a message goes, as the URL of a target says it: an exchange or a queue of
// RabbitMQ, or a stream of Redis. Parameters that it does not know are refused, so that a
// misspelled name does not send messages to the wrong place.

/** A target of an `amqp:` or `amqps:` URL. */
export interface AmqpPlace {
  readonly kind: "amqp";
  readonly virtualHost: string;
  /** Empty: the default exchange, which sends to the queue with the name of the routing key. */
  readonly exchange: string;
  readonly routingKey: string;
}

/** A target of a `redis-stream:` or `rediss-stream:` URL. */
export interface RedisPlace {
  readonly kind: "redis-stream";
  readonly database: number;
  readonly stream: string;
  /** About how many entries stay in the stream. Undefined: all. */
  readonly maxLen: number | undefined;
  /** False: a stream that does not exist is an error. */
  readonly creates: boolean;
}

export type BrokerPlace = AmqpPlace | RedisPlace;

/** A text is the reason why the URL is refused. */
export function brokerPlace(target: TargetUrl): BrokerPlace | string {
  const { url, scheme } = target;
  if (url.hash !== "") return "targetUrl must have no fragment: write # as %23";
  return scheme === "amqp" ? amqpPlace(url) : redisPlace(url);
}

function amqpPlace({ pathname, searchParams }: URL): AmqpPlace | string {
  const parameters = readParameters(searchParams, ["exchange", "routingKey", "queue"]);
  if (typeof parameters === "string") return parameters;
  const virtualHost = virtualHostOf(pathname);
  if (virtualHost === undefined) {
    const got = quote(pathname);
    return `targetUrl must have a virtual host as path, with / written as %2F, got ${got}`;
  }
  const { exchange, routingKey, queue } = parameters;
  if ((exchange === undefined) === (queue === undefined)) {
    return "targetUrl must have a parameter exchange or a parameter queue, such as ?exchange=orders&routingKey=new or ?queue=orders";
  }
  if (queue !== undefined && routingKey !== undefined) {
    return "targetUrl must have no parameter routingKey beside queue";
  }
  const wrong =
    wrongName("exchange", exchange) ?? wrongName("queue", queue) ?? wrongKey(routingKey);
  if (wrong !== undefined) return wrong;
  const key = queue ?? routingKey ?? "";
  return { kind: "amqp", virtualHost, exchange: exchange ?? "", routingKey: key };
}

/** Names in AMQP are at most this long, in bytes of UTF-8. */
const MAX_AMQP_NAME = 255;

/** No path and `/` are both the default virtual host, whose name is `/`. */
function virtualHostOf(pathname: string): string | undefined {
  const [, name = "", ...more] = pathname.split("/");
  const decoded = name === "" ? "/" : decode(name);
  return more.length > 0 || decoded === undefined || !isName(decoded, MAX_AMQP_NAME)
    ? undefined
    : decoded;
}

function wrongName(parameter: string, name: string | undefined): string | undefined {
  if (name === undefined || isName(name, MAX_AMQP_NAME)) return undefined;
  return `targetUrl: ${parameter} must be 1 to ${MAX_AMQP_NAME} bytes of text, got ${quote(name)}`;
}

function wrongKey(routingKey: string | undefined): string | undefined {
  return routingKey === "" ? undefined : wrongName("routingKey", routingKey);
}

/** Keys of Redis may be longer, but nobody needs that. */
const MAX_STREAM = 512;

function redisPlace({ pathname, searchParams }: URL): RedisPlace | string {
  const parameters = readParameters(searchParams, ["stream", "maxLen", "create"]);
  if (typeof parameters === "string") return parameters;
  const database = /^\/?(\d{0,5})$/.exec(pathname)?.[1];
  if (database === undefined) {
    return `targetUrl must have the number of a database as path, such as /0, got ${quote(pathname)}`;
  }
  const { stream, maxLen, create } = parameters;
  if (stream === undefined) return "targetUrl must have a parameter stream, such as ?stream=orders";
  if (!isName(stream, MAX_STREAM)) {
    return `targetUrl: stream must be 1 to ${MAX_STREAM} bytes of text, got ${quote(stream)}`;
  }
  if (maxLen !== undefined && !/^[1-9]\d{0,14}$/.test(maxLen)) {
    return `targetUrl: maxLen must be a whole number of at least 1, got ${quote(maxLen)}`;
  }
  if (create !== undefined && !/^(true|false)$/.test(create)) {
    return `targetUrl: create must be true or false, got ${quote(create)}`;
  }
  return {
    kind: "redis-stream",
    database: Number(database),
    stream,
    maxLen: maxLen === undefined ? undefined : Number(maxLen),
    creates: create !== "false",
  };
}

type Parameters<Name extends string> = Readonly<Partial<Record<Name, string>>>;

/** Each known parameter at most once. */
function readParameters<Name extends string>(
  given: URLSearchParams,
  known: readonly Name[],
): Parameters<Name> | string {
  const found = new Map<string, string>();
  for (const [name, value] of given) {
    if (!known.includes(name as Name)) return unknownParameter(name, known);
    if (found.has(name)) return `targetUrl has the parameter ${name} twice`;
    found.set(name, value);
  }
  return Object.fromEntries(found) as Parameters<Name>;
}

function unknownParameter(name: string, known: readonly string[]): string {
  const near = nearestName(name, known);
  const hint = near === undefined ? `: it may have ${known.join(", ")}` : `, did you mean ${near}?`;
  return `targetUrl has an unknown parameter ${quote(name)}${hint}`;
}

/** Bytes that are not UTF-8 become U+FFFD, so they would name something else. */
function isName(text: string, maxBytes: number): boolean {
  return text !== "" && Buffer.byteLength(text) <= maxBytes && !/[\p{Cc}\uFFFD]/u.test(text);
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
