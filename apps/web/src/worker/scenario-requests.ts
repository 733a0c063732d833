/** Scenario requests: the simulator of whole systems, apart because only one view needs it. */
export { simulate } from "@redrive/simulator";
