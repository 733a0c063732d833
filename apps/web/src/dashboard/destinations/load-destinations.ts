/** Load destinations: reads the list of destinations, up to a bound. */
import { client, type DestinationView } from "../service/client.ts";

export interface Destinations {
  readonly destinations: readonly DestinationView[];
  /** False: there are more than were read. */
  readonly isComplete: boolean;
}

const PAGE = 250;
/** A page of the API may be short, so this reads at most 2000 destinations. */
const MAX_PAGES = 8;

export async function loadDestinations(): Promise<Destinations> {
  let { destinations, cursor } = await client.listDestinations({ limit: PAGE });
  for (let n = 1; n < MAX_PAGES && cursor !== null; n++) {
    const next = await client.listDestinations({ limit: PAGE, cursor });
    destinations = [...destinations, ...next.destinations];
    cursor = next.cursor;
  }
  return { destinations, isComplete: cursor === null };
}

/** Whether an event may change the state of a destination. Attempts do so all the time. */
export function changesDestinations({ type }: { readonly type: string }): boolean {
  return !type.startsWith("attempt.started");
}
