/**
 * World: the addresses and names of the network namespace in which the tables of hostile targets run. All
 * addresses are on its loopback device, so a packet to any of them would arrive.
 */
import type { Zone } from "../../faces/service/src/deliver/dns-server.testing.ts";

/** The service listens here, in public mode: it is no loopback address. */
export const SERVICE = { address: "93.184.216.99", port: 7337 } as const;

/** The hostile servers. */
export const PUBLIC = "93.184.216.34";

/** Another service of the same kind, with another key. */
export const OTHER_SERVICE = { address: "93.184.216.98", port: 7338 } as const;

/** A service with a rule that allows a private address, and later without it. */
export const RULED_SERVICE = { address: OTHER_SERVICE.address, port: 7339 } as const;

/** What HTTP_PROXY of the service names. Nothing may ever arrive there. */
export const PROXY = { address: "93.184.216.50", port: 3128 } as const;

/** Private, and allowed by a rule that a later process does not have. */
export const ALLOWED = { address: "10.20.30.40", port: 8080 } as const;

/** Public addresses next to denied ranges. */
export const BOUNDARIES: readonly string[] = [
  "9.255.255.255",
  "11.0.0.0",
  "172.15.255.255",
  "172.32.0.0",
  "100.63.255.255",
  "100.128.0.0",
  "169.253.255.255",
  "2606:4700:4700::1111",
];

/** Addresses that must never be reached. The machine answers on all of them. */
export const DENIED: readonly string[] = [
  "10.0.0.1",
  "10.0.0.2",
  "172.16.0.1",
  "172.31.255.255",
  "192.168.1.1",
  "192.168.0.1",
  "169.254.169.254",
  "100.64.0.1",
  "100.100.100.200",
  "168.63.129.16",
  "192.0.0.192",
  "198.18.0.1",
  "192.0.2.1",
  "198.51.100.1",
  "203.0.113.1",
  "192.88.99.1",
  "fd00:ec2::254",
  "fc00::1",
  "2001:db8::1",
  "3fff::1",
  "2002:7f00:1::",
  "2002:a9fe:a9fe::",
  "2001::1",
  "5f00::1",
  "64:ff9b::7f00:1",
  "64:ff9b:1::a00:1",
  "100::1",
];

export const ALL_ADDRESSES: readonly string[] = [
  SERVICE.address,
  PUBLIC,
  OTHER_SERVICE.address,
  PROXY.address,
  ALLOWED.address,
  ...BOUNDARIES,
  ...DENIED,
];

/** Names with a certificate of their own (`tls-rows.ts`). */
export const TLS_NAMES = ["target.example", "other.example"] as const;

/** The second and every later answer of a name that is rebound is this. */
const LOOPBACK = ["127.0.0.1"];

/** The answers in turn; the last one again and again. */
function inTurn(...answers: readonly (readonly string[])[]): () => readonly string[] {
  let asked = 0;
  return () => answers[Math.min(asked++, answers.length - 1)] ?? [];
}

/** The names of the world. An unknown name does not exist. */
export function worldZone(): Zone {
  const thousand = Array.from({ length: 1000 }, () => PUBLIC);
  return {
    "target.example": { a: [PUBLIC] },
    "other.example": { a: [PUBLIC] },
    "loopback.example": { a: LOOPBACK },
    "loopback6.example": { aaaa: ["::1"] },
    "mapped.example": { aaaa: ["::ffff:10.0.0.1"] },
    "chain.example": { a: ["169.254.169.254"], cname: "metadata.google.internal" },
    "mixed.example": { a: [PUBLIC, "10.0.0.1"] },
    "mixed-thousand.example": { a: [...thousand, "127.0.0.1"] },
    "rebound.example": { a: inTurn([PUBLIC], LOOPBACK) },
    "rebound-later.example": { a: inTurn(["10.0.0.1"]) },
    "own.example": { a: [SERVICE.address] },
    "empty.example": { a: [] },
    "thousand.example": { a: thousand },
    "silent.example": "silent",
    "failing.example": 2,
    "refused.example": 5,
  };
}
