/**
 * DNS server: a small name server on loopback for tests, that can also keep silent or change its mind. A
 * reply that is too long for UDP is sent over TCP.
 */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { parseAddress } from "./address-guard.ts";

/** `silent`: never answers. A number: the DNS response code. Otherwise the records of the name. */
export type Zone = Readonly<Record<string, Records | "silent" | number>>;

export interface Records {
  /** A function is called for each question, so that a name can change its addresses. */
  readonly a?: readonly string[] | "silent" | (() => readonly string[]);
  readonly aaaa?: readonly string[] | "silent";
  /** The name is an alias of this one, which has the addresses. */
  readonly cname?: string;
}

export interface DnsServer {
  /** `address:port`. */
  readonly address: string;
  /** Every question that has arrived: `A name` or `AAAA name`. */
  readonly asked: string[];
  zone: Zone;
  /** Resolves once this question has arrived so often. */
  arrived(question: string, count?: number): Promise<void>;
  close(): void;
}

/** Longer replies are cut off over UDP (RFC 1035), and the client asks again over TCP. */
const MAX_UDP_BYTES = 512;

const CNAME = 5;
const AAAA = 28;
const NAME_ERROR = 3;
const TRUNCATED = 0x0200;
const HEADER_BYTES = 12;

/** `port`: default any free one. */
export async function dnsServer(zone: Zone, port = 0): Promise<DnsServer> {
  const socket = createSocket("udp4");
  // One listener for each call of `arrived` that waits.
  socket.setMaxListeners(0);
  const server: DnsServer = {
    address: "",
    asked: [],
    zone,
    async arrived(question, count = 1) {
      const seen = () => server.asked.filter((one) => one === question).length;
      while (seen() < count) await once(socket, "message");
    },
    close() {
      socket.close();
      streams.close();
    },
  };
  const answer = (query: Buffer) => {
    const { name, type, end } = questionIn(query);
    server.asked.push(`${type === AAAA ? "AAAA" : "A"} ${name}`);
    return replyTo(query.subarray(0, end), type, server.zone[name] ?? NAME_ERROR);
  };
  socket.on("message", (query, { port: from, address }) => {
    const reply = answer(query);
    if (reply !== undefined) socket.send(cutOff(reply, query), from, address);
  });
  // TCP first: other tests use many TCP ports, so one that is free for UDP may be in use there.
  const streams = await streamServer(answer, port);
  const { port: bound } = streams.address() as AddressInfo;
  socket.bind(bound, "127.0.0.1");
  await once(socket, "listening");
  return Object.assign(server, { address: `127.0.0.1:${bound}` });
}

/** A reply that is too long for UDP becomes an empty one that says so. */
function cutOff(reply: Buffer, query: Buffer): Buffer {
  if (reply.length <= MAX_UDP_BYTES) return reply;
  const empty = message(query.subarray(0, questionIn(query).end), 0, []);
  empty.writeUInt16BE(empty.readUInt16BE(2) | TRUNCATED, 2);
  return empty;
}

/** The same over TCP: each message has its length before it. */
async function streamServer(
  answer: (query: Buffer) => Buffer | undefined,
  port: number,
): Promise<Server> {
  const server = createServer((stream) => {
    let pending = Buffer.alloc(0);
    stream.on("error", () => {});
    stream.on("data", (chunk: Buffer) => {
      pending = Buffer.concat([pending, chunk]);
      while (pending.length >= 2 && pending.length >= 2 + pending.readUInt16BE(0)) {
        const end = 2 + pending.readUInt16BE(0);
        const reply = answer(pending.subarray(2, end));
        pending = pending.subarray(end);
        if (reply !== undefined) stream.write(Buffer.concat([lengthOf(reply), reply]));
      }
    });
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return server;
}

function lengthOf({ length }: Buffer): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(length);
  return bytes;
}

function questionIn(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** `question` is the query without its additional records. */
function replyTo(question: Buffer, type: number, known: Zone[string]): Buffer | undefined {
  if (known === "silent" || known === undefined) return undefined;
  if (typeof known === "number") return message(question, known, []);
  const found = (type === AAAA ? known.aaaa : known.a) ?? [];
  const addresses = typeof found === "function" ? found() : found;
  if (addresses === "silent") return undefined;
  // A pointer to the name of the question, or to the name in the alias record.
  const alias =
    known.cname === undefined ? [] : [record(HEADER_BYTES, CNAME, encoded(known.cname))];
  const owner = known.cname === undefined ? HEADER_BYTES : question.length + HEADER_BYTES;
  const data = addresses.map((one) => addressBytes(one, type));
  return message(question, 0, [...alias, ...data.map((bytes) => record(owner, type, bytes))]);
}

/** An IPv4 address in an AAAA record is mapped (`::ffff:0:0/96`). */
function addressBytes(address: string, type: number): Buffer {
  const bytes = Buffer.from(parseAddress(address) ?? []);
  const isMapped = type === AAAA && bytes.length === 4;
  return isMapped ? Buffer.concat([Buffer.from(`${"00".repeat(10)}ffff`, "hex"), bytes]) : bytes;
}

function message(question: Buffer, code: number, records: readonly Buffer[]): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  question.copy(head, 0, 0, 2);
  head.writeUInt16BE(0x8180 | code, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(records.length, 6);
  return Buffer.concat([head, question.subarray(HEADER_BYTES), ...records]);
}

function record(owner: number, type: number, data: Buffer): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc000 | owner, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt32BE(60, 6);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}

function encoded(name: string): Buffer {
  const labels = name
    .split(".")
    .map((one) => Buffer.from(`${String.fromCharCode(one.length)}${one}`));
  return Buffer.concat([...labels, Buffer.alloc(1)]);
}
