/** Destination calls: the part of the client for destinations and their documents. */
import type { ServiceDocument } from "../model/delivery/delivery-settings.ts";
import type {
  DestinationList,
  DestinationQuery,
  DestinationView,
} from "../schemas/operation-schemas.ts";
import type { Transport } from "./transport.ts";

export interface DestinationCalls {
  /** By name. Pass the cursor of a page to get the next one. */
  listDestinations(query?: DestinationQuery): Promise<DestinationList>;
  getDestination(name: string): Promise<DestinationView>;
  configureDestination(name: string, document: ServiceDocument): Promise<DestinationView>;
  pauseDestination(name: string): Promise<DestinationView>;
  /** Sends to a target URL again that a 410 response has disabled. */
  enableTarget(name: string, targetUrl: string): Promise<DestinationView>;
  resumeDestination(name: string): Promise<DestinationView>;
}

export function destinationCalls({ request }: Transport): DestinationCalls {
  const root = "destinations";
  return {
    listDestinations: (query = {}) =>
      request({ method: "GET", path: [root], query }, "destinations"),
    getDestination: (name) => request({ method: "GET", path: [root, name] }, "breakerState"),
    configureDestination: (name, document) =>
      request({ method: "PUT", path: [root, name], body: document }, "breakerState"),
    pauseDestination: (name) =>
      request({ method: "POST", path: [root, name, "pause"] }, "breakerState"),
    enableTarget: (name, targetUrl) =>
      request(
        { method: "POST", path: [root, name, "enable"], body: { targetUrl } },
        "breakerState",
      ),
    resumeDestination: (name) =>
      request({ method: "POST", path: [root, name, "resume"] }, "breakerState"),
  };
}
