/** The public API of `@redrive/simulator/export`: results as CSV and policies as code. */
export { adviceCode, type Code } from "./code.ts";
export { type CodeTarget, codeFor, codeTargets } from "./code-targets.ts";
export { type CsvRow, csv } from "./csv.ts";
export type { TargetCode } from "./languages/target-code.ts";
