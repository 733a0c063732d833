/** Advisor: the decision tree as a short conversation that ends in a policy, with reasons and code. */
import { adviceCode } from "@redrive/simulator/export";
import type { View } from "../app/view.ts";
import { exportables } from "../exports/exportables.ts";
import { presentAnswer } from "../worker/answer.ts";
import { advised, answers, fillAnswers, isOver } from "./advisor/advisor-store.ts";
import { checkAnswers } from "./advisor/answers.ts";
import { Conversation } from "./advisor/conversation.tsx";
import { Outcome } from "./advisor/outcome.tsx";
import { PolicySoFar } from "./advisor/policy-so-far.tsx";
import "./advisor/advisor.css";

function Stage() {
  return (
    <>
      <Conversation />
      {isOver.value && <Outcome />}
    </>
  );
}

/** As `redrive advise --json` prints it. */
async function adviceJson(): Promise<object> {
  const { advice } = await presentAnswer(advised);
  return { answers: answers.peek(), ...advice, code: adviceCode(advice) };
}

async function saveCode(): Promise<void> {
  const { advice } = await presentAnswer(advised);
  const files = await import("../exports/files.ts");
  const { destination } = adviceCode(advice);
  files.downloadText("redrive-advice.ts", "text/plain", `${destination}\n`);
}

export const advisorView: View<"advisor"> = {
  id: "advisor",
  explanation:
    "A few questions about the call lead to a policy; each answer sets the controls beside, and can be changed at any time. At the end stand the reasons, the chance to outlast your outage, what lint says, and the code.",
  Controls: PolicySoFar,
  Stage,
  state: () => ({ view: "advisor", answers: answers.value }),
  open({ answers: given }) {
    const checked = checkAnswers(given);
    return () => fillAnswers(checked);
  },
  reset: () => fillAnswers({}),
  exports: () => [
    ...exportables({ name: "redrive-advice", json: adviceJson }),
    { label: "Code", hint: "TypeScript for Redrive", run: saveCode },
  ],
};
