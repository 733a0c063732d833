/** The herd's lint: what will hurt in each strategy, when that many clients follow it. */
import { LintPanel } from "../../panels/lint.tsx";
import { nameOf } from "./names.ts";
import { clients, strategies } from "./store.ts";

export function HerdLint() {
  return (
    <>
      {strategies.value.map(({ name, document }, index) => (
        <LintPanel
          key={`${index}-${name}`}
          title={`What will hurt: ${nameOf(name)}`}
          policy={document}
          clients={clients.value}
        />
      ))}
    </>
  );
}
