/**
 * AMQP methods: the methods that a publisher sends, as frames, and the numbers of those that it
 * receives. Each method is a class and a number in it.
 */
import type { AmqpPlace } from "../../address-guard/broker-target.ts";
import type { BrokerLogin } from "../session/broker-login.ts";
import type { BrokerMessage } from "../session/broker-message.ts";
import { long, longLong, longString, octet, short, shortString, table } from "./amqp-fields.ts";
import { BODY, FRAME_OVERHEAD, frame, HEADER, METHOD } from "./amqp-frames.ts";

/** The methods that are received: the class in the upper 16 bits. */
export const RECEIVED = {
  start: id(10, 10),
  tune: id(10, 30),
  openOk: id(10, 41),
  close: id(10, 50),
  closeOk: id(10, 51),
  blocked: id(10, 60),
  unblocked: id(10, 61),
  channelOpenOk: id(20, 11),
  channelClose: id(20, 40),
  confirmSelectOk: id(85, 11),
  returned: id(60, 50),
  ack: id(60, 80),
  nack: id(60, 120),
} as const;

function id(classId: number, method: number): number {
  return classId * 65_536 + method;
}

function methodFrame(
  channel: number,
  classId: number,
  method: number,
  ...args: readonly Buffer[]
): Buffer {
  return frame(METHOD, channel, Buffer.concat([short(classId), short(method), ...args]));
}

/** What the broker may expect of this client, and how it shows up in the broker's list of connections. */
const CLIENT = table([
  ["product", "Redrive"],
  ["connection_name", "redrive"],
  [
    "capabilities",
    [
      ["publisher_confirms", true],
      ["basic.nack", true],
      ["connection.blocked", true],
      ["authentication_failure_close", true],
    ],
  ],
]);

/** The user that a new broker has, and accepts from its own machine only. */
const GUEST: BrokerLogin = { user: "guest", password: "guest" };

export function startOk({ user, password }: BrokerLogin = GUEST): Buffer {
  const response = longString(`\0${user}\0${password}`);
  const locale = shortString("en_US");
  return methodFrame(0, 10, 11, CLIENT, shortString("PLAIN"), response, locale);
}

export interface Tuning {
  readonly channels: number;
  readonly frameBytes: number;
  /** Seconds; 0: none. */
  readonly heartbeat: number;
}

export function tuneOk({ channels, frameBytes, heartbeat }: Tuning): Buffer {
  return methodFrame(0, 10, 31, short(channels), long(frameBytes), short(heartbeat));
}

export function openConnection(virtualHost: string): Buffer {
  return methodFrame(0, 10, 40, shortString(virtualHost), shortString(""), octet(0));
}

export function closeConnection(): Buffer {
  return methodFrame(0, 10, 50, short(200), shortString("done"), short(0), short(0));
}

export const CLOSE_OK: Buffer = methodFrame(0, 10, 51);

/** Opens a channel on which the broker confirms every message. */
export function openChannel(channel: number): Buffer {
  const open = methodFrame(channel, 20, 10, shortString(""));
  return Buffer.concat([open, methodFrame(channel, 85, 10, octet(0))]);
}

export function channelCloseOk(channel: number): Buffer {
  return methodFrame(channel, 20, 41);
}

/** The broker returns a message that no queue takes. */
const MANDATORY = 1;
/** The broker keeps the message on its disk, if its queue is durable. */
const PERSISTENT = 2;

/** The frames of a message; undefined: its headers do not fit into a frame. */
export function publish(
  channel: number,
  { exchange, routingKey }: AmqpPlace,
  message: BrokerMessage,
  frameBytes: number,
): readonly Buffer[] | undefined {
  const names = [short(0), shortString(exchange), shortString(routingKey)];
  const method = methodFrame(channel, 60, 40, ...names, octet(MANDATORY));
  const header = frame(HEADER, channel, contentHeader(message));
  if (header.length > frameBytes) return undefined;
  const frames = [method, header];
  const step = frameBytes - FRAME_OVERHEAD;
  for (let at = 0; at < message.body.length; at += step) {
    frames.push(frame(BODY, channel, message.body.subarray(at, at + step)));
  }
  return frames;
}

/** The properties of the message, in the order of their flags. */
function contentHeader(message: BrokerMessage): Buffer {
  const { id: messageId, contentType, contentEncoding, headers, body } = message;
  let flags = 0;
  const values: Buffer[] = [];
  const add = (bit: number, value: Buffer | undefined) => {
    if (value === undefined) return;
    flags += 2 ** bit;
    values.push(value);
  };
  add(15, contentType === undefined ? undefined : shortString(contentType));
  add(14, contentEncoding === undefined ? undefined : shortString(contentEncoding));
  add(13, table(headers));
  add(12, octet(PERSISTENT));
  add(7, shortString(messageId));
  return Buffer.concat([short(60), short(0), longLong(body.length), short(flags), ...values]);
}
