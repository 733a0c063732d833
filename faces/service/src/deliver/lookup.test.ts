/**
 * Tests of the two resolvers of production, with names that need no name server. Tests of lookups,
 * with a real name server on loopback. Tests of the limits of lookups: sharing, turns, and a clear
 * end. Tests of attempts next to slow names: a real name server, real connections, several tenants.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { stat } from "node:fs/promises";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { type Clock, systemClock, type VirtualClock, virtualClock } from "@redrive/core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { AMPLE, brief, requestTo, testDeliverer } from "./deliverer.testing.ts";
import { type DnsServer, dnsServer, type Zone } from "./dns-server.testing.ts";
import { type HostileServer, hostileServer } from "./hostile-server.testing.ts";
import { complete } from "./hostile-table.testing.ts";
import {
  createDnsLookup,
  createResolver,
  FAMILY_GRACE_MS,
  LOOKUP_DEADLINE_MS,
  type Lookup,
  limitLookups,
  MAX_WAIT_MS,
  MAX_WAITING_NAMES,
  type ResolvedAddress,
} from "./lookup.ts";

describe.each(["dns", "system"] as const)("the resolver %s", (kind) => {
  it("resolves localhost to this machine", async () => {
    const addresses = await createResolver(systemClock, kind)("localhost", "t1");
    expect(addresses.map(({ address }) => address)).toContain("127.0.0.1");
  });

  it("shares one lookup between concurrent callers, and looks up again later", async () => {
    const resolve = createResolver(systemClock, kind);
    const first = resolve("localhost", "t1");
    expect(resolve("localhost", "t2")).toBe(first);
    await first;
    const later = resolve("localhost", "t1");
    expect(later).not.toBe(first);
    await later;
  });
});

describe("dns lookup", () => {
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
});

const FOUND: readonly ResolvedAddress[] = [{ address: "192.0.2.1", family: 4 }];

/** A lookup whose answers come when the test says so. */
function controlled(perTenant: number, inAll: number) {
  const clock = virtualClock();
  const started: string[] = [];
  const ends = new Map<string, (error?: Error) => void>();
  const lookup = (name: string) =>
    new Promise<readonly ResolvedAddress[]>((resolve, reject) => {
      started.push(name);
      ends.set(name, (error) => (error ? reject(error) : resolve(FOUND)));
    });
  const resolve = limitLookups(clock, lookup, { perTenant, inAll });
  const end = async (name: string, error?: Error) => {
    ends.get(name)?.(error);
    await clock.advance(0);
  };
  return { clock, started, resolve, end };
}

describe("lookups of one name", () => {
  it("are shared while they run, and run again later", async () => {
    const { resolve, started, end } = controlled(2, 4);
    const first = resolve("a", "t1");
    expect(resolve("a", "t1")).toBe(first);
    expect(resolve("a", "t2")).toBe(first);
    await end("a");
    expect(await first).toBe(FOUND);
    const later = resolve("a", "t1");
    expect(later).not.toBe(first);
    expect(started).toEqual(["a", "a"]);
    await end("a");
    expect(await later).toBe(FOUND);
  });

  it("are shared while they wait", async () => {
    const { resolve, started, end } = controlled(1, 4);
    void resolve("a", "t1");
    const waiting = resolve("b", "t1");
    expect(resolve("b", "t1")).toBe(waiting);
    await end("a");
    expect(started).toEqual(["a", "b"]);
    await end("b");
    expect(await waiting).toBe(FOUND);
  });

  it("do not wait behind another tenant's queue", async () => {
    const { resolve, started } = controlled(1, 4);
    void resolve("slow", "t1");
    void resolve("b", "t1").catch(() => {});
    void resolve("b", "t2");
    expect(started).toEqual(["slow", "b"]);
  });
});

describe("slow names of one tenant", () => {
  it("do not delay another tenant, whose lookups start at once", () => {
    const { resolve, started } = controlled(32, 256);
    for (let n = 0; n < 500; n++) resolve(`slow${n}`, "t1").catch(() => {});
    expect(started.length).toBe(32);
    void resolve("quick", "t2");
    expect(started.at(-1)).toBe("quick");
  });

  it("end with TOO_MANY_LOOKUPS if no place gets free in time, or the queue is full", async () => {
    const { resolve, clock, end } = controlled(1, 4);
    const running = resolve("slow", "t1");
    const waiting = resolve("next", "t1");
    const outcome = expect(waiting).rejects.toMatchObject({ code: "TOO_MANY_LOOKUPS" });
    await clock.advance(MAX_WAIT_MS);
    await outcome;
    for (let n = 0; n < MAX_WAITING_NAMES; n++) resolve(`more${n}`, "t1").catch(() => {});
    await expect(resolve("excess", "t1")).rejects.toMatchObject({ code: "TOO_MANY_LOOKUPS" });
    await clock.advance(MAX_WAIT_MS);
    await end("slow");
    expect(await running).toBe(FOUND);
    expect(clock.pending()).toBe(0);
  });
});

it("tenants take turns when all places are taken, and a failure frees its place", async () => {
  const { resolve, started, end } = controlled(2, 2);
  const all = ["a1", "a2", "a3", "a4"].map((name) => resolve(name, "ta"));
  all.push(resolve("b1", "tb"), resolve("b2", "tb"));
  const settled = Promise.allSettled(all);
  await end("a1", new Error("failed"));
  await end("a2");
  expect(started.slice(2).sort()).toEqual(["a3", "b1"]);
  for (const name of ["a3", "b1", "a4", "b2"]) await end(name);
  const statuses = (await settled).map(({ status }) => status);
  expect(statuses).toEqual(["rejected", ...new Array(5).fill("fulfilled")]);
});

const SLOW = Array.from({ length: 40 }, (_, n) => `slow${n}.example`);
const MAX_PER_TENANT = 8;

let names: DnsServer;
let target: HostileServer;
beforeAll(async () => {
  const silent = SLOW.map((name): [string, Zone[string]] => [name, "silent"]);
  names = await dnsServer({
    ...Object.fromEntries(silent),
    "quick.example": { a: ["127.0.0.1"] },
    "rebound.example": { a: ["127.0.0.1", "10.0.0.1"] },
    "metadata.example": { aaaa: ["fd00:ec2::254"] },
  });
  target = await hostileServer(complete(200, "connection: close"));
});
afterAll(async () => {
  names.close();
  await target.close();
});

function deliverer(clock: Clock) {
  const lookup = createDnsLookup({ clock, servers: [names.address] });
  const resolve = limitLookups(clock, lookup, { perTenant: MAX_PER_TENANT, inAll: 32 });
  return testDeliverer({ clock, resolve });
}

const to = (name: string, tenantId: string) => requestTo(target.url("/", name), { tenantId });

describe("next to 40 names of another tenant that never get an answer", () => {
  it("attempts of a tenant succeed, and the others fail in time with a clear reason", async () => {
    const clock = virtualClock();
    const attempts = deliverer(clock);
    const limits = { attemptTimeoutMs: 10_000, connectTimeoutMs: 3000 };
    const slow = SLOW.map((name) => attempts.deliver(to(name, "t1"), limits));
    await names.arrived(`AAAA slow${MAX_PER_TENANT - 1}.example`);
    for (let n = 0; n < 5; n++) {
      const result = await attempts.deliver(to("quick.example", "t2"), AMPLE);
      expect(brief(result)).toBe("success 200");
    }
    await clock.advance(limits.connectTimeoutMs);
    const results = await Promise.all(slow);
    for (const { outcome } of results) {
      expect(outcome).toEqual({ kind: "error", errorClass: "dns", sent: false });
    }
    const excess = results.filter(({ errorMessage }) =>
      /TOO_MANY_LOOKUPS/.test(errorMessage ?? ""),
    );
    const late = results.filter(({ errorMessage }) => /LOOKUP_TIMEOUT/.test(errorMessage ?? ""));
    expect([late.length, excess.length]).toEqual([MAX_PER_TENANT, SLOW.length - MAX_PER_TENANT]);
    await attempts.close();
    await clock.advance(limits.attemptTimeoutMs);
    expect(clock.pending()).toBe(0);
  });
});

it.each(["rebound.example", "metadata.example"])("the guard checks %s", async (name) => {
  const attempts = deliverer(systemClock);
  const before = target.sockets.length;
  const result = await attempts.deliver(to(name, "t1"), AMPLE);
  expect([brief(result), target.sockets.length]).toEqual(["fault target-denied", before]);
  await attempts.close();
});
