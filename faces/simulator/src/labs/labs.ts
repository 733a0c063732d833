/**
 * Labs: the list of published results that the simulator must reproduce, and `runLab`. A row
 * outside its tolerance makes the report not ok. Also published as `@redrive/simulator/labs`.
 */
import { nearestName, quote, RedriveError } from "@redrive/core";
import { budgetsLab, throttleColdStartLab } from "./budgets.ts";
import { failoverLab, failoverOpenLab } from "./failover.ts";
import { hedgingLab } from "./hedging.ts";
import { coverageLab, herdLab, occLab } from "./jitter.ts";
import type { Lab, LabOptions, LabReport } from "./lab.ts";
import { limitsLab } from "./limits.ts";
import { loadLab, tiersLab } from "./load.ts";
import { breakerLab, collapseLab, metastableLab, shardsLab } from "./overload.ts";

export type { Basis, Lab, LabOptions, LabReport, LabRow, Tolerance } from "./lab.ts";

export const labs: readonly Lab[] = [
  occLab,
  herdLab,
  loadLab,
  budgetsLab,
  throttleColdStartLab,
  metastableLab,
  collapseLab,
  breakerLab,
  shardsLab,
  coverageLab,
  failoverLab,
  failoverOpenLab,
  hedgingLab,
  limitsLab,
  tiersLab,
];

/** Runs the lab with this id. Throws `INVALID_ARGUMENT` for an unknown id. */
export function runLab(id: string, options: LabOptions = {}): LabReport {
  const { seed = 1, effort = 1 } = options;
  const lab = labs.find((one) => one.id === id);
  if (lab === undefined) {
    const ids = labs.map((one) => one.id);
    const near = nearestName(id, ids);
    const hint = near === undefined ? `one of ${ids.join(", ")}` : `did you mean ${quote(near)}?`;
    throw new RedriveError("INVALID_ARGUMENT", `unknown lab ${quote(id)}, ${hint}`);
  }
  const rows = lab.run(seed, effort);
  const { title, source } = lab;
  const ok = rows.every((row) => row.ok || row.deviation !== undefined);
  return { id, title, source, seed, rows, ok };
}
