/**
 * Handed over: what is already known about a request that the direct path leaves to its route. The route
 * does not check the caller again, and gets the body that has already been read.
 */
import type { IncomingMessage } from "node:http";
import type { Accepted } from "../../intake/task-intake.ts";
import type { Caller } from "../access/access.ts";

export interface HandedOver {
  /** Undefined: the request was refused with `error`. */
  readonly caller: Caller | undefined;
  /** Undefined: the body has not been read. */
  readonly body: Buffer | undefined;
  /** The task that was stored. Undefined: nothing was stored, as far as is known. */
  readonly accepted: Accepted | undefined;
  /** Why the request failed; undefined: the route finds out. */
  readonly error: unknown;
}

const KNOWN = Symbol("handed over");

type WithKnown = IncomingMessage & { [KNOWN]?: HandedOver };

export function setHandedOver(request: IncomingMessage, known: HandedOver): void {
  (request as WithKnown)[KNOWN] = known;
}

/** Undefined: the route handles the request from its beginning. */
export function handedOver(request: IncomingMessage): HandedOver | undefined {
  return (request as WithKnown)[KNOWN];
}
