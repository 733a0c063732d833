/**
 * Key targets: checks the targets of one API key, if the key has a list. The check runs when a task
 * is created or redriven, on the host as written. A name must be listed as a name; its addresses
 * are checked by the address guard at every attempt.
 */
import { memoize } from "../collections/bounded-cache.ts";
import {
  type AllowRule,
  isInBlock,
  parseAddress,
  parseAllowlist,
} from "../deliver/address-guard.ts";
import { parseTargetUrl } from "../deliver/target.ts";
import { serviceError } from "../model/errors.ts";

const rulesOf = memoize(1000, parseAllowlist);

/**
 * Throws `TARGET_DENIED` for a URL that is not in the list. Malformed URLs are rejected elsewhere.
 */
export function assertKeyTargets(targets: string | undefined, urls: readonly unknown[]): void {
  if (targets === undefined) return;
  for (const url of urls) {
    const parsed = typeof url === "string" ? parseTargetUrl(url) : undefined;
    if (parsed === undefined) continue;
    const { url: address, port, host } = parsed;
    if (!rulesOf(targets).some((rule) => isListed(rule, address.hostname, port))) {
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
