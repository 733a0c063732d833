/** All checkers: the list of checkers that run on every seed. */

import type { SeedFeatures } from "../features.ts";
import type { Checker } from "../history.ts";
import { callbacks } from "./callbacks.ts";
import { cancels } from "./cancels.ts";
import { documents } from "./documents.ts";
import { fleetLimits } from "./fleet-limits.ts";
import { heldDestinations } from "./held-destinations.ts";
import { limits } from "./limits.ts";
import { liveClaims } from "./live-claims.ts";
import { noEarlyAttempt } from "./no-early-attempt.ts";
import { nothingLost } from "./nothing-lost.ts";
import { promptStarts } from "./prompt-starts.ts";
import { redrives } from "./redrives.ts";
import { retryBudget } from "./retry-budget.ts";
import { suspects } from "./suspects.ts";
import { tenantTurns } from "./tenant-turns.ts";
import { terminalStates } from "./terminal-states.ts";
import { wireBound } from "./wire-bound.ts";

export const BUSY_TENANT = "busy";
/** Its tasks begin after the faults have stopped, at destinations of their own. */
export const PROMPT_TENANT = "prompt";
/** Nothing holds its tasks. */
export const QUIET_TENANT = "quiet";

/** The retry budget of a simulated node for all destinations. Small, so that it takes effect. */
export const SERVICE_BUDGET = { ratio: 0.2, minPerSecond: 2 } as const;

export function allCheckers(
  { isSingle, documents: hasDocuments, tenants, retention, crowd }: SeedFeatures,
  maxAttemptsOf: (policyId: string) => number,
): readonly Checker[] {
  return [
    documents(),
    nothingLost(),
    liveClaims(),
    suspects(),
    wireBound(maxAttemptsOf),
    terminalStates(),
    noEarlyAttempt(),
    heldDestinations(hasDocuments, isSingle),
    retryBudget({ service: SERVICE_BUDGET, isSingle, isShared: tenants }),
    cancels(),
    limits(),
    // They look at ended tasks, which retention removes.
    ...(retention ? [] : [callbacks(), redrives()]),
    promptStarts(PROMPT_TENANT),
    ...(isSingle ? [] : [fleetLimits()]),
    // A node of several does not know the tasks of the others, and takes no turns with them.
    // Nor does a node that reads a long backlog in pages after a crash.
    ...(isSingle && tenants && !crowd ? [tenantTurns(QUIET_TENANT)] : []),
  ];
}
