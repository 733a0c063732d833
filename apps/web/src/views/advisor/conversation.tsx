/** Conversation: the questions and answers so far, each with a Change button, and the next question. */
import type { Question } from "@redrive/simulator";
import { useRef } from "preact/hooks";
import { adviceQuery, answers, asked, currentId, editAnswer } from "./advisor-store.ts";
import { answerText, questionText } from "./answers.ts";
import { changesText } from "./field-labels.ts";
import { QuestionCard } from "./question-card.tsx";
import { useFocus } from "./use-focus.ts";

export function Conversation() {
  const rows = asked.value.filter(
    ({ id }) => id === currentId.value || answers.value[id] !== undefined || isAssumed(id),
  );
  return (
    <ol class="talk">
      {rows.map((question) => (
        <li key={question.id}>
          {question.id === currentId.value ? (
            <QuestionCard question={question} />
          ) : (
            <AnswerRow question={question} />
          )}
        </li>
      ))}
    </ol>
  );
}

/** At the end, unanswered questions are listed with their defaults. */
function isAssumed(id: Question["id"]): boolean {
  return currentId.value === undefined && answers.value[id] === undefined;
}

function AnswerRow({ question }: { readonly question: Question }) {
  const button = useRef<HTMLButtonElement>(null);
  const { id, fallback } = question;
  useFocus(button, (focus) => focus !== "outcome" && focus.at === "row" && focus.id === id);
  const given = answers.value[id];
  const sets = given === undefined ? "" : changesOf(id);
  return (
    <div class="answer-row">
      <p class="asked">{questionText(question)}</p>
      <p class={given === undefined ? "answer default" : "answer"}>
        {answerText(question, given ?? fallback)}
        {given === undefined && " (default)"}
      </p>
      <p class={sets === NO_CHANGE ? "sets faint" : "sets"} aria-busy={adviceQuery.isBusy.value}>
        {sets}
      </p>
      <button
        ref={button}
        type="button"
        class="button quiet small"
        aria-label={`Change: ${questionText(question)}`}
        onClick={() => editAnswer(id)}
      >
        {given === undefined ? "Answer" : "Change"}
      </button>
    </div>
  );
}

const NO_CHANGE = "changes nothing";

/** Empty until the worker responds. */
function changesOf(id: Question["id"]): string {
  const step = adviceQuery.value.value?.steps.find((one) => one.id === id);
  if (step === undefined) return "";
  return changesText(step.changes) || NO_CHANGE;
}
