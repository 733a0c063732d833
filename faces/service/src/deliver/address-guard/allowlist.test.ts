/** Tests of the exceptions an operator may write, and of the messages for those it may not. */
import { describe, expect, it } from "vitest";
import { parseAllowlist } from "./allowlist.ts";

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

  it.each(["", "  "])("takes %j for no entry", (text) => {
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
