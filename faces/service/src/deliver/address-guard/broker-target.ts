/**
 * Broker target: where a message goes, as the URL of a target says it: an exchange or a queue of
 * RabbitMQ, or a stream of Redis. Parameters that it does not know are refused, so that a misspelled
 * name does not send messages to the wrong place.
 */
import { nearestName, quote } from "@redrive/core";
import type { TargetUrl } from "./target-url.ts";

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
