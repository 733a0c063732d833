/** Scenario requests: the system simulator, in its own module because only one view needs it. */
export { simulate } from "@redrive/simulator";
