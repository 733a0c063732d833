/** Curve lint: the lint panel for the policy of the controls. */
import { LintPanel } from "../../panels/lint/lint-panel.tsx";
import { changePolicy, outageMs, policy } from "./curve-store.ts";

export function CurveLint() {
  return <LintPanel policy={policy.value} outageMs={outageMs.value} onFix={changePolicy} />;
}
