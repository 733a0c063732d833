/** DNS server: a small name server on loopback for tests, over UDP, that can also keep silent. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { parseAddress } from "../address-guard/address.ts";

/** `silent`: never answers. A number: the DNS response code. Otherwise the records of the name. */
export type Zone = Readonly<Record<string, Records | "silent" | number>>;

export interface Records {
  readonly a?: readonly string[] | "silent";
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

const CNAME = 5;
const AAAA = 28;
const NAME_ERROR = 3;
const HEADER_BYTES = 12;

export async function dnsServer(zone: Zone): Promise<DnsServer> {
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
    close: () => socket.close(),
  };
  socket.on("message", (query, { port, address }) => {
    const { name, type, end } = questionIn(query);
    server.asked.push(`${type === AAAA ? "AAAA" : "A"} ${name}`);
    const known = server.zone[name] ?? NAME_ERROR;
    const reply = replyTo(query.subarray(0, end), type, known);
    if (reply !== undefined) socket.send(reply, port, address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return Object.assign(server, { address: `127.0.0.1:${(socket.address() as AddressInfo).port}` });
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
  const addresses = (type === AAAA ? known.aaaa : known.a) ?? [];
  if (addresses === "silent") return undefined;
  // A pointer to the name of the question, or to the name in the alias record.
  const alias =
    known.cname === undefined ? [] : [record(HEADER_BYTES, CNAME, encoded(known.cname))];
  const owner = known.cname === undefined ? HEADER_BYTES : question.length + HEADER_BYTES;
  const data = addresses.map((one) => Buffer.from(parseAddress(one) ?? []));
  return message(question, 0, [...alias, ...data.map((bytes) => record(owner, type, bytes))]);
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
