/**
 * Service guards: the guards of a destination document as the service uses them, in a document that says
 * so everywhere. The linter and the simulator read it; they have no guards unless a document names them.
 */
import type { DestinationDocument } from "@redrive/core";
import { guardFields, type ServiceDocument } from "./delivery-settings.ts";

/** What `resolveDestination` fills in for the service. */
export const SERVICE_GUARDS: DestinationDocument = {
  policy: "background",
  retryBudget: {},
  breaker: {},
  concurrency: {},
  retryAfterGate: {},
};

/** Without the fields that only the service uses. */
export function serviceGuards(document: ServiceDocument): DestinationDocument {
  return { ...SERVICE_GUARDS, ...guardFields({ ...document }) };
}
