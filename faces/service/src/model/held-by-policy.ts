/** Held by policy: how a task says that it is held because its policy cannot be read. */
import type { PolicyRef } from "./policy-cache.ts";

const PREFIX = "held: ";

/** The last error of a held task. */
export function heldText({ policyId, policyVersion }: PolicyRef, reason: string): string {
  return `${PREFIX}version ${policyVersion} of policy ${JSON.stringify(policyId)} cannot be read: ${reason}`;
}

export function isHeldByPolicy({ lastError }: { readonly lastError: string | null }): boolean {
  return lastError?.startsWith(`${PREFIX}version `) ?? false;
}
