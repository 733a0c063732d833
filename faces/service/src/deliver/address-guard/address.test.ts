/** Tests of which addresses may be called, against the special ranges and a naive model. */
import { isIPv6 } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AddressKind, isInBlock, kindOf, parseAddress, parseBlock } from "./address.ts";

describe("parsing", () => {
  it.each([
    ["127.0.0.1", [127, 0, 0, 1]],
    ["::1", [...new Array(15).fill(0), 1]],
    ["[::1]", [...new Array(15).fill(0), 1]],
    ["::ffff:10.0.0.1", [10, 0, 0, 1]],
    ["::ffff:a00:1", [10, 0, 0, 1]],
    ["0:0:0:0:0:FFFF:0a00:0001", [10, 0, 0, 1]],
    ["1:2:3:4:5:6:1.2.3.4", [0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 1, 2, 3, 4]],
    ["1::", [0, 1, ...new Array(14).fill(0)]],
  ])("reads %s", (text, bytes) => {
    expect(parseAddress(text)).toEqual(bytes);
  });

  it.each([
    "",
    "127.1",
    "0177.0.0.1",
    "127.0.0.01",
    "1.2.3.4.5",
    "256.0.0.1",
    "1.2.3.-4",
    " 1.2.3.4",
    "fe80::1%eth0",
    ":::",
    "1::2::3",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7::8:9",
    "::1.2.3.4:5",
    "::12345",
    "::g",
    "[::1",
    "example.com",
  ])("finds no address in %j", (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });

  it("reads every IPv6 that Node takes for one, and no other", () => {
    const group = fc.stringMatching(/^[0-9a-f]{0,5}$/);
    const text = fc.array(group, { minLength: 1, maxLength: 9 }).map((groups) => groups.join(":"));
    fc.assert(
      fc.property(text, (address) => {
        if (!address.includes(":")) return;
        expect(parseAddress(address) !== undefined).toBe(isIPv6(address));
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    "10.0.0.1/8",
    "10.0.0.0/33",
    "10.0.0.0/",
    "10.0.0.0/08",
    "10.0.0.0/8/8",
    "::ffff:0:0/96",
  ])("finds no block in %j", (text) => {
    expect(parseBlock(text)).toBeUndefined();
  });
});

/** The naive model: an address is a number, a block a range of numbers. */
const bits = (bytes: readonly number[]) =>
  bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);

const range = (text: string): readonly [number, bigint, bigint] => {
  const [address = "", length = ""] = text.split("/");
  const bytes = parseAddress(address) ?? [];
  const size = 1n << BigInt(bytes.length * 8 - Number(length));
  return [bytes.length, bits(bytes), bits(bytes) + size - 1n];
};

const MODEL: readonly (readonly [AddressKind, readonly string[]])[] = [
  ["loopback", ["127.0.0.0/8", "::1/128"]],
  [
    "metadata",
    [
      "169.254.0.0/16",
      "168.63.129.16/32",
      "100.100.100.200/32",
      "192.0.0.192/32",
      "fe80::/10",
      "fd00:ec2::/32",
      "fd20:ce::254/128",
    ],
  ],
  [
    "special",
    [
      ...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24"],
      ...["192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"],
      ...["192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24"],
      ...["203.0.113.0/24", "224.0.0.0/3", "::/3", "4000::/2", "8000::/1", "2001::/23"],
      ...["2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20"],
    ],
  ],
];

const RANGES = MODEL.map(([kind, texts]) => [kind, texts.map(range)] as const);

function modelKind(bytes: readonly number[]): AddressKind {
  const value = bits(bytes);
  const found = RANGES.find(([, ranges]) =>
    ranges.some(([size, low, high]) => size === bytes.length && value >= low && value <= high),
  );
  return found?.[0] ?? "public";
}

/** Addresses anywhere, and those at the edges of every block, where mistakes live. */
const edges = RANGES.flatMap(([, ranges]) => ranges).flatMap(([size, low, high]) =>
  [low - 1n, low, high, high + 1n].map((value) => [size, value] as const),
);

function toBytes([size, value]: readonly [number, bigint]): number[] {
  const wrapped = BigInt.asUintN(size * 8, value);
  return Array.from({ length: size }, (_, i) =>
    Number((wrapped >> BigInt((size - 1 - i) * 8)) & 255n),
  );
}

describe("classification", () => {
  it("agrees with the naive model at the edges of every block", () => {
    for (const edge of edges) {
      const bytes = toBytes(edge);
      expect([bytes, kindOf(bytes)]).toEqual([bytes, modelKind(bytes)]);
    }
  });

  it("agrees with the naive model anywhere", () => {
    const byte = fc.nat(255);
    const address = fc.oneof(
      fc.array(byte, { minLength: 4, maxLength: 4 }),
      fc.array(byte, { minLength: 16, maxLength: 16 }),
      fc
        .tuple(
          fc.constantFrom(0x20, 0x3f, 0xfe, 0),
          fc.array(byte, { minLength: 15, maxLength: 15 }),
        )
        .map(([first, rest]) => [first, ...rest]),
    );
    fc.assert(
      fc.property(address, (bytes) => {
        expect(kindOf(bytes)).toBe(modelKind(bytes));
      }),
      { numRuns: 3000 },
    );
  });

  it("sees through the IPv4-mapped form of every address", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(255), { minLength: 4, maxLength: 4 }), (bytes) => {
        const dotted = bytes.join(".");
        expect(parseAddress(`::ffff:${dotted}`)).toEqual(parseAddress(dotted));
      }),
    );
  });

  it("keeps IPv4 and IPv6 apart", () => {
    const all = parseBlock("::/0");
    expect(all && isInBlock([1, 2, 3, 4], all)).toBe(false);
  });
});
