/** The herd's lint: what will hurt in each strategy, when that many clients follow it. */
import { LintPanel } from "../../panels/lint/lint-panel.tsx";
import { clients, strategies } from "./herd-store.ts";
import { strategyLabel } from "./strategy-labels.ts";

export function HerdLint() {
  return (
    <>
      {strategies.value.map(({ name, document }, index) => (
        <LintPanel
          key={`${index}-${name}`}
          title={`What will hurt: ${strategyLabel(name)}`}
          policy={document}
          clients={clients.value}
        />
      ))}
    </>
  );
}
