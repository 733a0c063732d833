/** Verdict: what to say of one result: within its tolerance, known to differ and why, or missed. */
import type { LabRow } from "@redrive/simulator";

export type Verdict = "ok" | "differs" | "missed";

export function rowVerdict({ ok, deviation }: Pick<LabRow, "ok" | "deviation">): Verdict {
  if (ok) return "ok";
  return deviation === undefined ? "missed" : "differs";
}
