/** The surface of `@redrive/simulator/export`: results and policies in forms that others read. */
export { adviceCode, type Code } from "./code.ts";
export { type CodeTarget, codeFor, codeTargets, type TargetCode } from "./code-targets.ts";
export { type CsvRow, csv } from "./csv.ts";
