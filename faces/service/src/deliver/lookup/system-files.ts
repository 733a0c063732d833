/**
 * System files: what this machine says about names and addresses: its hosts file, its search list and
 * its network interfaces. Changes take effect within a second.
 */
import { getDefaultResultOrder } from "node:dns";
import { readFileSync, statSync } from "node:fs";
import { type NetworkInterfaceInfo, networkInterfaces } from "node:os";
import { join } from "node:path";
import type { Clock } from "@redrive/core";
import { kindOf, parseAddress } from "../address-guard/address.ts";
import { type HostsFile, parseHosts } from "./hosts-file.ts";
import { NO_SEARCH, parseResolvConf, type SearchList } from "./resolv-conf.ts";
import type { ResolvedAddress } from "./resolver.ts";

export interface SystemPaths {
  readonly hosts: string;
  readonly resolvConf: string;
}

const CHECK_EVERY_MS = 1000;

const LOOPBACK_IPV4: ResolvedAddress = { address: "127.0.0.1", family: 4 };
const LOOPBACK_IPV6: ResolvedAddress = { address: "::1", family: 6 };

export class SystemFiles {
  readonly #clock: Clock;
  readonly #hosts: WatchedFile<HostsFile>;
  readonly #search: WatchedFile<SearchList>;

  // Mutable state.
  #checkedMs = Number.NEGATIVE_INFINITY;
  #prefersIpv6 = false;
  #loopback: readonly ResolvedAddress[] = [LOOPBACK_IPV4];

  constructor(clock: Clock, paths: SystemPaths = systemPaths()) {
    this.#clock = clock;
    this.#hosts = new WatchedFile(paths.hosts, parseHosts, new Map());
    this.#search = new WatchedFile(paths.resolvConf, parseResolvConf, NO_SEARCH);
  }

  get hosts(): HostsFile {
    return this.#hosts.content;
  }

  /** A new object whenever `/etc/resolv.conf` has changed. */
  get search(): SearchList {
    return this.#search.content;
  }

  get prefersIpv6(): boolean {
    return this.#prefersIpv6;
  }

  /** The addresses of `localhost`. */
  get loopback(): readonly ResolvedAddress[] {
    return this.#loopback;
  }

  /** Synchronous: the threads for asynchronous access may be busy, and the files are small. */
  refresh(): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#checkedMs < CHECK_EVERY_MS) return;
    this.#checkedMs = nowMs;
    this.#hosts.refresh();
    this.#search.refresh();
    const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
    this.#prefersIpv6 = prefersIpv6(addresses);
    const hasIpv6 = addresses.some(({ address }) => address === LOOPBACK_IPV6.address);
    this.#loopback = hasIpv6 ? [LOOPBACK_IPV4, LOOPBACK_IPV6] : [LOOPBACK_IPV4];
  }
}

class WatchedFile<T> {
  readonly #path: string;
  readonly #parse: (text: string) => T;
  readonly #empty: T;

  // Mutable state.
  #version = "";
  content: T;

  constructor(path: string, parse: (text: string) => T, empty: T) {
    this.#path = path;
    this.#parse = parse;
    this.#empty = empty;
    this.content = empty;
  }

  /** A file that is missing is empty. One that cannot be read now keeps its last content. */
  refresh(): void {
    try {
      const { mtimeMs, size, ino } = statSync(this.#path);
      const version = `${mtimeMs} ${size} ${ino}`;
      if (version === this.#version) return;
      this.content = this.#parse(readFileSync(this.#path, "utf8"));
      this.#version = version;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || this.#version === "") return;
      this.#version = "";
      this.content = this.#empty;
    }
  }
}

function systemPaths(): SystemPaths {
  const root = process.env["SystemRoot"];
  const windows = root && join(root, "System32", "drivers", "etc", "hosts");
  return { hosts: windows || "/etc/hosts", resolvConf: "/etc/resolv.conf" };
}

/** As `getaddrinfo` does: IPv6 first if this machine has a public IPv6 address. */
function prefersIpv6(addresses: readonly NetworkInterfaceInfo[]): boolean {
  const order = getDefaultResultOrder();
  if (order !== "verbatim") return order !== "ipv4first";
  return addresses.some(isPublicIpv6);
}

function isPublicIpv6({ address, internal }: NetworkInterfaceInfo): boolean {
  const bytes = internal ? undefined : parseAddress(address);
  return bytes?.length === 16 && kindOf(bytes) === "public";
}
