/**
 * All checkers: what every seed is held to.
 */
import type { Checker } from "../history.ts";
import { cancels } from "./cancels.ts";
import { heldDestinations } from "./held-destinations.ts";
import { liveClaims } from "./live-claims.ts";
import { noEarlyAttempt } from "./no-early-attempt.ts";
import { nothingLost } from "./nothing-lost.ts";
import { retryBudget } from "./retry-budget.ts";
import { terminalStates } from "./terminal-states.ts";
import { wireBound } from "./wire-bound.ts";

/** What the nodes of the simulation were given for all destinations: tight, so that it bites. */
export const WHOLE_BUDGET = { ratio: 0.2, minPerSecond: 2 } as const;

export function allCheckers(maxAttemptsOf: (policyId: string) => number): readonly Checker[] {
  return [
    nothingLost(),
    liveClaims(),
    wireBound(maxAttemptsOf),
    terminalStates(),
    noEarlyAttempt(),
    heldDestinations(),
    retryBudget(WHOLE_BUDGET),
    cancels(),
  ];
}
