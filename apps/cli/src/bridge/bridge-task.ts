/**
 * Bridge task: the task of the service that a message of a broker becomes. The same message always
 * becomes the same task, so that a message that is delivered twice creates one task.
 */
import { createHash } from "node:crypto";
import type { TaskToCreate } from "@redrive/service/client";
import type { RabbitBody, RedisFields } from "redrive/consume";

/** A message, independent of its broker. */
export interface BridgeMessage {
  readonly id: string;
  readonly content: Buffer;
  /** With names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The Redrive services that it has passed through, so that a loop of queues and tasks ends. */
  readonly hops: number;
}

/** What all tasks of a bridge have in common. */
export interface BridgeTaskOptions {
  readonly targetUrl: string;
  /** The queue or stream. The keys of two queues differ, even if the ids of their messages do not. */
  readonly queue: string;
  readonly method?: string | undefined;
  /** Override those of the message. */
  readonly headers: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly policyId?: string | undefined;
}

/** The headers of a message that describe its trace. A task always has them. */
const DESCRIBING = ["traceparent", "tracestate"];

/** The fields of an entry of Redis that describe its body or its trace. */
const DESCRIBING_FIELDS = ["content-type", "content-encoding", ...DESCRIBING];

const HOP = "redrive-hop";

/** `forward`: further headers of the message that the request gets. */
export function rabbitMessage(
  id: string,
  { content, properties }: RabbitBody,
  forward: readonly string[],
): BridgeMessage {
  const { contentType, contentEncoding, headers: own = {} } = properties;
  const wanted = new Set([...DESCRIBING, ...forward.map((name) => name.toLowerCase())]);
  const headers: Record<string, string> = {};
  if (typeof contentType === "string") headers["content-type"] = contentType;
  if (typeof contentEncoding === "string") headers["content-encoding"] = contentEncoding;
  wanted.delete(HOP);
  for (const [name, value] of Object.entries(own)) {
    if (wanted.has(name.toLowerCase()) && isScalar(value)) headers[name.toLowerCase()] = `${value}`;
  }
  return { id, content: Buffer.from(content), headers, hops: hopsOf(own[HOP]) };
}

function hopsOf(value: unknown): number {
  return isScalar(value) && /^\d{1,9}$/.test(`${value}`) ? Number(value) : 0;
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

/** `bodyField`: the field that is the body. Without it, the body is JSON with all fields. */
export function redisMessage(
  id: string,
  fields: RedisFields,
  bodyField: string | undefined,
): BridgeMessage {
  const hops = hopsOf(fields[HOP]);
  if (bodyField === undefined) {
    const headers = { "content-type": "application/json" };
    return { id, content: Buffer.from(JSON.stringify(fields)), headers, hops };
  }
  const described = DESCRIBING_FIELDS.flatMap((name) => {
    const value = fields[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const headers = Object.fromEntries(described);
  return { id, content: Buffer.from(fields[bodyField] ?? ""), headers, hops };
}

/** The task of a message, without its body. */
export function bridgeTask(message: BridgeMessage, options: BridgeTaskOptions): TaskToCreate {
  const { targetUrl, queue, method, labels, policyId } = options;
  const headers = { ...message.headers };
  for (const [name, value] of Object.entries(options.headers)) headers[name.toLowerCase()] = value;
  return {
    targetUrl,
    ...(method !== undefined && { method: method.toUpperCase() }),
    ...(Object.keys(headers).length > 0 && { headers }),
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(policyId !== undefined && { policyId }),
    idempotencyKey: keyOf(queue, message.id),
  };
}

const KEY = /^[\x21-\x7e]{1,255}$/;

/** An id that cannot be part of a key is hashed. */
function keyOf(queue: string, id: string): string {
  const key = `${queue}:${id}`;
  if (KEY.test(key)) return key;
  return `sha256:${createHash("sha256").update(key).digest("hex")}`;
}
