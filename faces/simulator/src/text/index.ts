/**
 * The public API of `@redrive/simulator/text`: policies, reports and lab results as text and rows.
 */
export { peaksOver, ratesOver } from "../measure/over-time.ts";
export { isUndecided } from "../measure/verdict.ts";
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
export { policySummary } from "./policy-summary.ts";
export { reportRows, seriesRows } from "./report-rows.ts";
export { formatSamples, maxSumMs, scheduleRows } from "./schedule-rows.ts";
