/** Herd lint: a lint panel for each strategy, with the number of clients. */
import { LintPanel } from "../../panels/lint/lint-panel.tsx";
import { clients, strategies } from "./herd-store.ts";
import { strategyLabel } from "./strategy-labels.ts";

export function HerdLint() {
  return (
    <>
      {strategies.value.map(({ name, document }, index) => (
        <LintPanel
          key={`${index}-${name}`}
          title={`Lint: ${strategyLabel(name)}`}
          policy={document}
          clients={clients.value}
        />
      ))}
    </>
  );
}
