/** The surface of `@redrive/simulator/words`: figures, policies and reports as people read them. */
export { peaksOver, ratesOver } from "../measure/over-time.ts";
export { herdRows } from "./herd-words.ts";
export {
  boundsOf,
  deviationOf,
  isNumberRow,
  type NumberRow,
  rowVerdict,
  type Verdict,
} from "./lab-results.ts";
export { labRows, toleranceWords } from "./lab-words.ts";
export { policyWords } from "./policy-words.ts";
export { reportRows, seriesRows } from "./report-words.ts";
export { longestSumMs, scheduleRows, triedWords } from "./schedule-words.ts";
