/**
 * Key targets: where the tasks of one API key may go, where its list says so. Judged when a task is
 * handed over or redriven, by the host as it is written: a name must be listed as a name, since what it resolves
 * to is the business of the guard that judges every attempt.
 */

import { memoize } from "../collections/bounded-cache.ts";
import { isInBlock, parseAddress } from "../deliver/address-guard/address.ts";
import { type AllowRule, parseAllowlist } from "../deliver/address-guard/allowlist.ts";
import { serviceError } from "../model/errors.ts";

const rulesOf = memoize(1000, parseAllowlist);

/** Throws `TARGET_DENIED` for a URL that the list does not have. What is no URL is judged elsewhere. */
export function assertKeyTargets(targets: string | undefined, urls: readonly unknown[]): void {
  if (targets === undefined) return;
  for (const url of urls) {
    if (typeof url !== "string" || !URL.canParse(url)) continue;
    const { hostname, protocol, port, host } = new URL(url);
    const wanted = Number(port || (protocol === "https:" ? 443 : 80));
    if (!rulesOf(targets).some((rule) => isListed(rule, hostname, wanted))) {
      throw serviceError("TARGET_DENIED", `this API key may not send to ${host}`);
    }
  }
}

function isListed(rule: AllowRule, hostname: string, port: number): boolean {
  if (rule.port !== undefined && rule.port !== port) return false;
  const bytes = parseAddress(hostname);
  if (bytes !== undefined) return rule.block !== undefined && isInBlock(bytes, rule.block);
  return rule.name === hostname.toLowerCase().replace(/\.$/, "");
}
