/**
 * Unread body: an attempt whose stored body could not be read. It is no outcome of the target, so no
 * guard learns of it. If the blob store does not respond, the task waits without using an attempt, for a
 * limited number of times. A body that is gone or wrong stays so: the task becomes a dead letter.
 */
import type { Outcome } from "@redrive/core";
import { BoundedCache } from "../../collections/bounded-cache.ts";
import type { AttemptResult } from "../../deliver/attempt-result.ts";
import type { Settle } from "../../model/batch.ts";
import type { HeldClaim } from "./held-claims.ts";
import {
  attemptLogOf,
  decideEnding,
  type Ending,
  expirationOf,
  releaseOf,
  settleOf,
} from "./settlement.ts";

/** How often a task waits for the blob store: about a quarter of an hour in all. */
const MAX_WAITS = 10;
const FIRST_WAIT_MS = 1000;
const MAX_WAIT_MS = 300_000;

/** Beyond this number of tasks, the waits are counted again. */
const MAX_TASKS = 10_000;

const REASON = "body-unavailable";

/** Our side broke the request off, so the target did nothing with it. */
const CUT_SHORT: Outcome = { kind: "error", errorClass: "reset", sent: false };

type EndedClaim = Pick<HeldClaim, "task" | "startedAt" | "waits">;

export class UnreadBodies {
  /** The waits of each task on this node. */
  readonly #waits = new BoundedCache<number>(MAX_TASKS);

  /** The settle of such an attempt. */
  settleOf(claim: EndedClaim, ending: Omit<Ending, "outcome">, result: AttemptResult): Settle {
    const { task, now } = ending;
    const { bodyFault, errorMessage } = result;
    const lastError = errorMessage ?? REASON;
    const isLost = bodyFault?.kind === "missing" || bodyFault?.kind === "corrupt";
    // A request that was sent in part is an attempt. The target has seen that it is not complete.
    if (bodyFault?.isSent === true) {
      const log = attemptLogOf(claim, result);
      if (isLost) return { ...expirationOf(task, REASON), attempt: log };
      const cutShort: Ending = { ...ending, outcome: CUT_SHORT };
      return settleOf(cutShort, decideEnding(cutShort), log);
    }
    const name = `${task.tenantId}\n${task.taskId}`;
    const waits = this.#waits.get(name) ?? 0;
    if (isLost || waits >= MAX_WAITS) {
      this.#waits.delete(name);
      return expirationOf(task, REASON, lastError);
    }
    this.#waits.set(name, waits + 1);
    const waitMs = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** waits);
    return { ...releaseOf(task, now + waitMs), lastError };
  }
}
