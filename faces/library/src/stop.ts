/**
 * Stop: thrown by the wrapped function to end its call at once, without a retry.
 */
import { stops } from "./judgement.ts";

/** `throw new Stop(error)` ends the call, which rejects with `error`. A text becomes an `Error`. */
export class Stop extends Error {
  override readonly name: string = "Stop";

  constructor(error: unknown) {
    const cause: unknown = error === Object(error) ? error : new Error(error as string);
    super((cause as Error).message, { cause });
    stops.set(this, true);
  }
}
