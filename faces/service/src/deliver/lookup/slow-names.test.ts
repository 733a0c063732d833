/** Tests of attempts next to slow names: a real name server, real connections, several tenants. */
import { type Clock, systemClock, virtualClock } from "@redrive/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AMPLE, brief, requestTo, testDeliverer } from "../deliverer.testing.ts";
import { type HostileServer, hostileServer } from "../hostile-server.testing.ts";
import { complete } from "../hostile-table.testing.ts";
import { createDnsLookup } from "./dns-lookup.ts";
import { type DnsServer, dnsServer, type Zone } from "./dns-server.testing.ts";
import { limitLookups } from "./lookup-limits.ts";

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
