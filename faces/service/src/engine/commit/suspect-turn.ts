/**
 * Suspect turn: which commit loop of a node claims a suspect now. The loops of several shards share it,
 * because a crash must accuse only one task.
 */
import type { PlannedClaim } from "../schedule/planned-claim.ts";

export class SuspectTurn {
  #owner: object | undefined;

  /** May this loop claim a suspect, as far as the other loops are concerned? */
  isFree(loop: object): boolean {
    return this.#owner === undefined || this.#owner === loop;
  }

  /** The loop commits these claims. */
  begin(loop: object, claims: readonly PlannedClaim[]): void {
    if (claims.some(isSuspectClaim)) this.#owner = loop;
  }

  /** The commit of the loop has ended. */
  end(loop: object): void {
    if (this.#owner === loop) this.#owner = undefined;
  }
}

export function isSuspectClaim({ lane }: PlannedClaim): boolean {
  return lane.lane === "suspect";
}
