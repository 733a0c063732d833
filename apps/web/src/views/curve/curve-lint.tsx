/** The curve's lint: what will hurt in the policy of the controls, and the button that mends it. */
import { LintPanel } from "../../panels/lint/lint-panel.tsx";
import { changePolicy, outageMs, policy } from "./curve-store.ts";

export function CurveLint() {
  return <LintPanel policy={policy.value} outageMs={outageMs.value} onFix={changePolicy} />;
}
