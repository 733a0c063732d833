/** Advisor view: a decision tree as questions that lead to a policy, with reasons and code. */
import { adviceCode } from "@redrive/simulator/export";
import { exportMenu } from "../../exports/export-menu.ts";
import { currentResult } from "../../worker/query.ts";
import type { View } from "../view.ts";
import { adviceQuery, answers, isFinished, setAnswers } from "./advisor-store.ts";
import { checkAnswers } from "./answers.ts";
import { Conversation } from "./conversation.tsx";
import { Outcome } from "./outcome.tsx";
import { PolicyPreview } from "./policy-preview.tsx";
import "./advisor.css";

function Stage() {
  return (
    <>
      <Conversation />
      {isFinished.value && <Outcome />}
    </>
  );
}

/** The same object that `redrive advise --json` prints. */
async function adviceJson(): Promise<object> {
  const { advice } = await currentResult(adviceQuery);
  return { answers: answers.peek(), ...advice, code: adviceCode(advice) };
}

async function saveCode(): Promise<void> {
  const { advice } = await currentResult(adviceQuery);
  const files = await import("../../exports/files.ts");
  const { destination } = adviceCode(advice);
  files.downloadText("redrive-advice.ts", "text/plain", `${destination}\n`);
}

export const advisorView: View<"advisor"> = {
  id: "advisor",
  explanation:
    "A few questions about the call lead to a policy; you see what each answer sets, and you can change it at any time. The result has the reasons, the share of calls that outlast your outage, the lint findings and the code.",
  Controls: PolicyPreview,
  Stage,
  state: () => ({ view: "advisor", answers: answers.value }),
  open({ answers: given }) {
    const checked = checkAnswers(given);
    return () => setAnswers(checked);
  },
  reset: () => setAnswers({}),
  exports: () => [
    ...exportMenu({ name: "redrive-advice", json: adviceJson }),
    { label: "Code", hint: "TypeScript for Redrive", run: saveCode },
  ],
};
