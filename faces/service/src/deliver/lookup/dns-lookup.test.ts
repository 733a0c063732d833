/** Tests of lookups, with a real name server on loopback. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { stat } from "node:fs/promises";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock, type VirtualClock, virtualClock } from "@redrive/core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createDnsLookup, FAMILY_GRACE_MS, LOOKUP_DEADLINE_MS } from "./dns-lookup.ts";
import { type DnsServer, dnsServer, type Zone } from "./dns-server.testing.ts";
import type { Lookup } from "./resolver.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-dns-"));
const paths = { hosts: join(folder, "hosts"), resolvConf: join(folder, "resolv.conf") };
let server: DnsServer;

beforeAll(async () => {
  writeFileSync(paths.hosts, "");
  writeFileSync(paths.resolvConf, "");
  server = await dnsServer({});
});
afterEach(() => {
  server.asked.length = 0;
});
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true });
});

function lookupIn(zone: Zone, clock: VirtualClock | typeof systemClock = systemClock): Lookup {
  server.zone = zone;
  return createDnsLookup({ clock, servers: [server.address], paths });
}

const addressesOf = async (lookup: Lookup, name: string) =>
  (await lookup(name)).map(({ address }) => address);

/** c-ares gives up by itself after this many queries, long after our deadline. */
const ALL_TRIES = 4;

const timesAsked = (question: string) => server.asked.filter((one) => one === question).length;

/** c-ares times its queries itself; the virtual clock only moves our own deadlines. */
async function lateLookup(lookup: Lookup, clock: VirtualClock, question: string, ms: number) {
  const name = question.split(" ")[1] ?? "";
  const done = lookup(name);
  done.catch(() => {});
  await server.arrived(question);
  await clock.advance(ms);
  return done;
}

describe("a name", () => {
  it("has its addresses of both families, IPv4 first on a machine without IPv6", async () => {
    const lookup = lookupIn({
      "a.example": { a: ["192.0.2.1", "192.0.2.2"], aaaa: ["2001:db8::1"] },
    });
    const found = await lookup("A.example");
    expect(found.map(({ family }) => family).sort()).toEqual([4, 4, 6]);
    expect(found.filter(({ family }) => family === 4)).toEqual([
      { address: "192.0.2.1", family: 4 },
      { address: "192.0.2.2", family: 4 },
    ]);
    expect(server.asked.sort()).toEqual(["A a.example", "AAAA a.example"]);
  });

  it.each([
    ["only IPv4", { a: ["192.0.2.1"] }, ["192.0.2.1"]],
    ["only IPv6", { aaaa: ["2001:db8::1"] }, ["2001:db8::1"]],
    ["an alias", { cname: "b.example", a: ["192.0.2.3"] }, ["192.0.2.3"]],
  ])("may have %s", async (_what, records, expected) => {
    expect(await addressesOf(lookupIn({ "a.example": records }), "a.example")).toEqual(expected);
  });

  it("is looked up every time: nothing is cached", async () => {
    const lookup = lookupIn({ "a.example": { a: ["192.0.2.1"] } });
    expect(await addressesOf(lookup, "a.example")).toEqual(["192.0.2.1"]);
    server.zone = { "a.example": { a: ["127.0.0.1"] } };
    expect(await addressesOf(lookup, "a.example")).toEqual(["127.0.0.1"]);
  });

  it.each([
    ["does not exist", "ENOTFOUND", {}],
    ["has no addresses", "ENOTFOUND", { "a.example": {} }],
    ["has a failing server", "ESERVFAIL", { "a.example": 2 }],
    ["has a refusing server", "EREFUSED", { "a.example": 5 }],
  ])("that %s fails with %s", async (_what, code, zone) => {
    await expect(lookupIn(zone)("a.example")).rejects.toMatchObject({ code });
  });
});

describe("a server that keeps silent", () => {
  it("fails the lookup at its deadline", async () => {
    const clock = virtualClock();
    const lookup = lookupIn({ "slow.example": "silent" }, clock);
    const late = lateLookup(lookup, clock, "A slow.example", LOOKUP_DEADLINE_MS);
    await expect(late).rejects.toMatchObject({ code: "LOOKUP_TIMEOUT" });
    expect(timesAsked("A slow.example")).toBeLessThan(ALL_TRIES);
    expect(clock.pending()).toBe(0);
  });

  it("about one family delays the addresses of the other only a little", async () => {
    const clock = virtualClock();
    for (const [question, records, expected] of [
      ["AAAA half.example", { a: ["192.0.2.1"], aaaa: "silent" }, "192.0.2.1"],
      ["A half.example", { a: "silent", aaaa: ["2001:db8::1"] }, "2001:db8::1"],
    ] as const) {
      const lookup = lookupIn({ "half.example": records }, clock);
      const done = lookup("half.example");
      await server.arrived(question);
      // The deadline, and the grace once the other family has answered.
      while (clock.pending() < 2) await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(FAMILY_GRACE_MS);
      expect((await done).map(({ address }) => address)).toEqual([expected]);
      expect(timesAsked(question)).toBeLessThan(ALL_TRIES);
      expect(clock.pending()).toBe(0);
      server.asked.length = 0;
    }
  });

  it("about a hundred names delays no other name", async () => {
    const zone: Record<string, Zone[string]> = { "quick.example": { a: ["192.0.2.1"] } };
    for (let n = 0; n < 100; n++) zone[`slow${n}.example`] = "silent";
    const clock = virtualClock();
    const lookup = lookupIn(zone, clock);
    const slow = Array.from({ length: 100 }, (_, n) => lookup(`slow${n}.example`));
    const ends = Promise.allSettled(slow);
    for (let n = 0; n < 100; n++) await server.arrived(`AAAA slow${n}.example`);
    // Their deadlines have not passed: the clock has not moved.
    expect(await addressesOf(lookup, "quick.example")).toEqual(["192.0.2.1"]);
    // The threads for files are free, too.
    expect((await stat(folder)).isDirectory()).toBe(true);
    await clock.advance(LOOKUP_DEADLINE_MS);
    const codes = (await ends).map((one) =>
      one.status === "rejected" ? one.reason.code : "found",
    );
    expect(codes).toEqual(new Array(100).fill("LOOKUP_TIMEOUT"));
    expect(clock.pending()).toBe(0);
  });
});

const FILES = "/proc/self/fd";

// skipped: only Linux lists the open files of a process
it.skipIf(!existsSync(FILES))("a deadline closes the socket of its lookup", async () => {
  const names = Array.from({ length: 50 }, (_, n) => `slow${n}.example`);
  const clock = virtualClock();
  const lookup = lookupIn(Object.fromEntries(names.map((name) => [name, "silent"])), clock);
  const openFiles = () => readdirSync(FILES).length;
  const before = openFiles();
  const ends = Promise.allSettled(names.map(lookup));
  await Promise.all(names.map((name) => server.arrived(`AAAA ${name}`)));
  expect(openFiles()).toBeGreaterThanOrEqual(before + names.length);
  await clock.advance(LOOKUP_DEADLINE_MS);
  await ends;
  expect(openFiles()).toBeLessThan(before + names.length / 2);
});

describe("names that need no name server", () => {
  it.each(["localhost", "LOCALHOST.", "app.localhost"])("%s is this machine", async (name) => {
    writeFileSync(paths.hosts, "203.0.113.9 localhost app.localhost\n");
    const lookup = lookupIn({ [name]: { a: ["203.0.113.9"] } });
    const local = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
    const hasIpv6 = local.some(({ address }) => address === "::1");
    expect(await addressesOf(lookup, name)).toEqual(["127.0.0.1", ...(hasIpv6 ? ["::1"] : [])]);
    expect(server.asked).toEqual([]);
  });

  it("are in the hosts file, which is read again when it changes", async () => {
    writeFileSync(paths.hosts, "10.0.0.1 db.example  DB # a comment\n::1%lo0 db.example\n");
    const clock = virtualClock();
    const lookup = lookupIn({}, clock);
    expect(await addressesOf(lookup, "db.example")).toEqual(["10.0.0.1"]);
    expect(await addressesOf(lookup, "db")).toEqual(["10.0.0.1"]);
    writeFileSync(paths.hosts, "10.0.0.2 db.example\n10.0.0.3 db.example\n10.0.0.2 db.example\n");
    await clock.advance(1000);
    expect(await addressesOf(lookup, "DB.example.")).toEqual(["10.0.0.2", "10.0.0.3"]);
    rmSync(paths.hosts);
    await clock.advance(1000);
    await expect(lookup("db.example")).rejects.toMatchObject({ code: "ENOTFOUND" });
    expect(server.asked.sort()).toEqual(["A db.example", "AAAA db.example"]);
  });
});

describe("the search list", () => {
  it("is asked in the order of the C library", async () => {
    writeFileSync(paths.resolvConf, "search ns.svc.local svc.local\noptions timeout:1 ndots:2\n");
    const zone = {
      "pay.ns.svc.local": { a: ["10.0.0.1"] },
      "pay.other.svc.local": { a: ["10.0.0.2"] },
      "a.b.example": { a: ["192.0.2.1"] },
    };
    const lookup = lookupIn(zone);
    expect(await addressesOf(lookup, "pay")).toEqual(["10.0.0.1"]);
    expect(await addressesOf(lookup, "pay.other")).toEqual(["10.0.0.2"]);
    server.asked.length = 0;
    expect(await addressesOf(lookup, "a.b.example")).toEqual(["192.0.2.1"]);
    expect(server.asked.sort()).toEqual(["A a.b.example", "AAAA a.b.example"]);
    await expect(lookup("pay.")).rejects.toMatchObject({ code: "ENOTFOUND" });
    writeFileSync(paths.resolvConf, "");
  });
});
