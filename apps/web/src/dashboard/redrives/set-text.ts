/** Set text: names the dead letters of a redrive by the filter that selected them. */
import { visibleText } from "../parts/visible-text.ts";
import type { RedriveView } from "../service/client.ts";

/** "billing, attempts" or "selected dead letters". */
export function setText({ filter }: Pick<RedriveView, "filter">): string {
  if (filter === null) return "selected dead letters";
  const { destination, reason, label, policyId, lastStatus, idempotencyKey } = filter;
  const parts = [destination, reason, label, policyId, lastStatus, idempotencyKey];
  const given = parts.filter((part) => part !== undefined).map((part) => visibleText(String(part)));
  return given.length === 0 ? "all dead letters" : given.join(", ");
}
