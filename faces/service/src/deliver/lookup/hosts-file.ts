/** Hosts file: the names and addresses in the text of a hosts file. */
import { parseAddress } from "../address-guard/address.ts";
import type { ResolvedAddress } from "./resolver.ts";

/** By name, in lower case. */
export type HostsFile = ReadonlyMap<string, readonly ResolvedAddress[]>;

/** Lines are an address and its names. Lines with an address that does not parse are skipped. */
export function parseHosts(text: string): HostsFile {
  const hosts = new Map<string, ResolvedAddress[]>();
  for (const line of text.split("\n")) {
    const [address = "", ...names] = withoutComment(line).split(/\s+/u);
    if (names.length === 0 || parseAddress(address) === undefined) continue;
    const resolved = { address, family: address.includes(":") ? 6 : 4 };
    for (const name of names) addTo(hosts, bareName(name), resolved);
  }
  return hosts;
}

/** In lower case, without the dot at the end. */
export function bareName(name: string): string {
  return name.toLowerCase().replace(/\.$/u, "");
}

function addTo(hosts: Map<string, ResolvedAddress[]>, name: string, added: ResolvedAddress): void {
  const known = hosts.get(name);
  if (known === undefined) hosts.set(name, [added]);
  else if (!known.some(({ address }) => address === added.address)) known.push(added);
}

function withoutComment(line: string): string {
  return line.replace(/#.*$/u, "").trim();
}
