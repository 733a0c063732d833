/** Destination view: a destination as callers see it. URLs may hold secrets in their queries. */
import type { DestinationHealth } from "../../operations/destination-health.ts";
import { maskQuery, type Visibility } from "./views.ts";

export function viewDestination(
  health: DestinationHealth,
  { mayReadPayload }: Pick<Visibility, "mayReadPayload">,
): DestinationHealth {
  if (mayReadPayload) return health;
  const { document, disabledTargets } = health;
  const url = document?.deadLetterUrl;
  return {
    ...health,
    document: url === undefined ? document : { ...document, deadLetterUrl: maskQuery(url) },
    disabledTargets: disabledTargets.map((target) => ({
      ...target,
      targetUrl: maskQuery(target.targetUrl),
    })),
  };
}
