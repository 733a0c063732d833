/**
 * The public API of `@redrive/simulator/text`: policies, reports and lab results as text and rows.
 */

export { herdRows } from "./herd-rows.ts";
export {
  boundsOf,
  deviationOf,
  isNumberRow,
  type NumberRow,
  rowVerdict,
  type Verdict,
} from "./lab-results.ts";
export { formatTolerance, labRows } from "./lab-rows.ts";
export { peaksOver, ratesOver } from "./over-time.ts";
export { policySummary } from "./policy-summary.ts";
export { reportRows, seriesRows } from "./report-rows.ts";
export { formatSamples, maxSumMs, scheduleRows } from "./schedule-rows.ts";
export { isUndecided } from "./worlds/report.ts";
