/** Tests of the limit per address: one machine cannot use all connections. */
import { describe, expect, it } from "vitest";
import { AddressLimit } from "./address-limit.ts";

describe("the connections of one address", () => {
  it("are counted, refused above the limit, and forgotten when they end", () => {
    const limit = new AddressLimit(2);
    const leaves = [limit.enter("203.0.113.7"), limit.enter("203.0.113.7")];
    expect(limit.enter("203.0.113.7")).toBeUndefined();
    leaves[0]?.();
    const next = limit.enter("203.0.113.7");
    expect(next).toBeTypeOf("function");
    leaves[1]?.();
    next?.();
    expect(limit.size).toBe(0);
  });

  it.each([
    ["another IPv4 address", "203.0.113.7", "203.0.113.8", true],
    ["the same address in IPv6 form", "203.0.113.7", "::ffff:203.0.113.7", false],
    ["another address of the same /64", "2001:db8::1", "2001:db8::2", false],
    ["another /64", "2001:db8::1", "2001:db8:0:1::1", true],
    ["a link-local address with another zone", "fe80::1%eth0", "fe80::1%eth1", false],
  ])("%s: %s and %s", (_what, first, second, isAdmitted) => {
    const limit = new AddressLimit(1);
    limit.enter(first);
    expect(limit.enter(second) !== undefined).toBe(isAdmitted);
  });

  it.each(["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", undefined])(
    "%s is not limited",
    (address) => {
      const limit = new AddressLimit(1);
      expect([limit.enter(address), limit.enter(address)].includes(undefined)).toBe(false);
      expect(limit.size).toBe(0);
    },
  );
});
