/** The surface of `@redrive/simulator/words`: figures, policies and reports as people read them. */
export { meansOver, peaksOver, ratesOver } from "../measure/over-time.ts";
export { counted, figure, percent, plain, span, whole } from "./figures.ts";
export { labRows, toleranceWords } from "./lab-words.ts";
export { policyWords } from "./policy-words.ts";
export { reportRows, seriesRows } from "./report-words.ts";
