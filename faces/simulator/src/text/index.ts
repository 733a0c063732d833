/** The surface of `@redrive/simulator/text`: figures, policies and reports as people read them. */
export { peaksOver, ratesOver } from "../measure/over-time.ts";
export { herdRows } from "./herd-rows.ts";
export {
  boundsOf,
  deviationOf,
  isNumberRow,
  type NumberRow,
  rowVerdict,
  type Verdict,
} from "./lab-results.ts";
export { labRows, toleranceWords } from "./lab-rows.ts";
export { policyWords } from "./policy-summary.ts";
export { reportRows, seriesRows } from "./report-rows.ts";
export { longestSumMs, scheduleRows, triedWords } from "./schedule-rows.ts";
