/**
 * Tests of the target policy: what each mode allows. Tests of address classification, against the
 * special ranges and a naive model. Tests of the operator's allowlist, and of the messages for
 * malformed entries.
 */
import { isIPv6 } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type AddressKind,
  createTargetPolicy,
  isInBlock,
  kindOf,
  mayReach,
  parseAddress,
  parseAllowlist,
  parseBlock,
  type TargetPolicy,
  type TargetPolicyOptions,
} from "./address-guard.ts";
import { checkTarget } from "./target.ts";

function verdict(url: string, policy: TargetPolicy): string {
  const checked = checkTarget(url, policy);
  return checked.ok ? "allowed" : checked.kind;
}

const allowing = (list: string, options: TargetPolicyOptions = {}) =>
  createTargetPolicy({ ...options, allow: parseAllowlist(list) });

describe("this service's own address", () => {
  it("is denied on every interface when it listens on all", () => {
    const own = [{ address: "0.0.0.0", port: 7337 }];
    const policy = allowing("0.0.0.0/0, ::/0, self.example", {
      own,
      machine: ["8.8.4.4", "10.0.0.9"],
    });
    for (const address of ["8.8.4.4", "10.0.0.9", "127.0.0.1", "0.0.0.0", "::1", "::"]) {
      expect(mayReach(policy, { address, name: "self.example", port: 7337 })).toBe(false);
    }
    expect(mayReach(policy, { address: "8.8.4.5", name: "self.example", port: 7337 })).toBe(true);
    expect(mayReach(policy, { address: "10.0.0.9", name: "self.example", port: 7338 })).toBe(true);
  });

  it("is denied only on the addresses where it listens", () => {
    const own = [{ address: "10.0.0.9", port: 7337 }];
    const policy = allowing("10.0.0.0/8", { own });
    expect(mayReach(policy, { address: "10.0.0.9", name: "a.example", port: 7337 })).toBe(false);
    expect(mayReach(policy, { address: "10.0.0.8", name: "a.example", port: 7337 })).toBe(true);
  });

  it.each([{ address: "nowhere", port: 1 }, { port: 0 }, { port: 65_536 }])(
    "must be one: %j",
    (own) => {
      expect(() => createTargetPolicy({ own: [own] })).toThrow(/must be/);
    },
  );
});

describe("the allowlist in force", () => {
  it("allows addresses, on the named port or on all but the blocked ones", () => {
    const policy = allowing("10.0.0.0/8, 192.168.1.5:8080");
    expect(verdict("http://10.9.9.9:3000/", policy)).toBe("allowed");
    expect(verdict("http://10.9.9.9:6379/", policy)).toBe("denied");
    expect(verdict("http://192.168.1.5:8080/", policy)).toBe("allowed");
    expect(verdict("http://192.168.1.5:8081/", policy)).toBe("denied");
    expect(verdict("http://192.168.1.6:8080/", policy)).toBe("denied");
  });

  it("allows a blocked port only if an entry names it", () => {
    const policy = allowing("10.0.0.0/8:6379, search.example:9200");
    expect(verdict("http://10.0.0.1:6379/", policy)).toBe("allowed");
    expect(verdict("http://search.example:9200/", policy)).toBe("allowed");
    expect(verdict("http://other.example:9200/", policy)).toBe("denied");
    // The address of a name is known at connect time; the rule for its block decides then.
    expect(verdict("http://cache.example:6379/", policy)).toBe("allowed");
    expect(mayReach(policy, { address: "10.0.0.1", name: "cache.example", port: 6379 })).toBe(true);
    expect(mayReach(policy, { address: "8.8.8.8", name: "cache.example", port: 6379 })).toBe(false);
  });

  it("allows a name at any address except metadata", () => {
    const policy = allowing("redis, db.internal:8080");
    expect(verdict("http://redis/", policy)).toBe("allowed");
    expect(verdict("http://REDIS./", policy)).toBe("allowed");
    expect(verdict("http://db.internal:8080/", policy)).toBe("allowed");
    expect(verdict("http://db.internal/", policy)).toBe("denied");
    expect(mayReach(policy, { address: "10.0.0.1", name: "redis", port: 80 })).toBe(true);
    expect(mayReach(policy, { address: "10.0.0.1", name: "other", port: 80 })).toBe(false);
    expect(mayReach(policy, { address: "169.254.169.254", name: "redis", port: 80 })).toBe(false);
  });

  it("allows metadata only by exact address", () => {
    const wide = allowing("169.254.0.0/16, 0.0.0.0/0, fd00::/8, metadata.google.internal");
    const exact = allowing("169.254.169.254, [fd00:ec2::254]:80");
    for (const host of ["169.254.169.254", "168.63.129.16", "[fd00:ec2::254]"]) {
      expect([host, verdict(`http://${host}/`, wide)]).toEqual([host, "denied"]);
    }
    expect(verdict("http://169.254.169.254/", exact)).toBe("allowed");
    expect(verdict("http://[fd00:ec2::254]/", exact)).toBe("allowed");
    expect(verdict("http://169.254.169.253/", exact)).toBe("denied");
  });
});

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
  ])("rejects %j as an address", (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });

  it("accepts exactly the IPv6 addresses that Node accepts", () => {
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
  ])("rejects %j as a block", (text) => {
    expect(parseBlock(text)).toBeUndefined();
  });
});

/** The naive model: an address is a number, a block is a range of numbers. */
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

/** Random addresses, and those at the edges of every block, where mistakes are likely. */
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

  it("agrees with the naive model on random addresses", () => {
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

  it("converts the IPv4-mapped form of every address", () => {
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

describe("the allowlist", () => {
  it("reads addresses, blocks and names, with and without a port", () => {
    expect(
      parseAllowlist(
        "10.0.0.0/8, 10.1.2.3:8080 ,hooks.corp.example," +
          "Redis.Corp.Example.:6379,[fd00::/8]:443,fd00::1",
      ),
    ).toEqual([
      { block: { bytes: [10, 0, 0, 0], prefix: 8 } },
      { block: { bytes: [10, 1, 2, 3], prefix: 32 }, port: 8080 },
      { name: "hooks.corp.example" },
      { name: "redis.corp.example", port: 6379 },
      { block: { bytes: [0xfd, ...new Array(15).fill(0)], prefix: 8 }, port: 443 },
      { block: { bytes: [0xfd, ...new Array(14).fill(0), 1], prefix: 128 } },
    ]);
  });

  it.each(["", "  "])("reads %j as an empty list", (text) => {
    expect(parseAllowlist(text)).toEqual([]);
  });

  it.each([
    ["http://10.0.0.1", "no scheme"],
    ["10.0.0.0/33", "a block like 10.0.0.0/8"],
    ["10.0.0.1/8", "a block like 10.0.0.0/8"],
    ["2130706433", "an address or a block"],
    ["0x7f.1", "an address or a block"],
    ["10.0.0.1:0", "its port must be 1 to 65535"],
    ["10.0.0.1:70000", "its port must be 1 to 65535"],
    ["name:http", "its port must be 1 to 65535"],
    ["a,,b", '"": it must be'],
    ["*.example.com", "cidr[:port] or name[:port]"],
    ["user@host.example", "cidr[:port] or name[:port]"],
    ["[::1", "an address or a block"],
    ["[::1]x", "an address or a block"],
  ])("refuses %j", (text, message) => {
    expect(() => parseAllowlist(text)).toThrow(message);
  });
});
