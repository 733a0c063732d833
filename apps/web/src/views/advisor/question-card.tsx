/** Question card: the one question in sight, answered by a button or a number. */
import type { Question } from "@redrive/simulator";
import type { RefObject } from "preact";
import { useRef } from "preact/hooks";
import { answers, asked, assumeRest, editing, setAnswer } from "./advisor-store.ts";
import { questionText } from "./answers.ts";
import { NumberAnswer } from "./number-answer.tsx";
import { useFocus } from "./use-focus.ts";

export function QuestionCard({ question }: { readonly question: Question }) {
  const first = useRef<HTMLButtonElement>(null);
  const { id, help, kind } = question;
  useFocus(first, (focus) => focus !== "outcome" && focus.at === "question" && focus.id === id);
  const place = asked.value.findIndex((one) => one.id === id) + 1;
  return (
    <fieldset class="card question">
      <legend>
        <span class="question-place">
          Question {place} of {asked.value.length}
        </span>{" "}
        {questionText(question)}
      </legend>
      <p class="faint">{help}</p>
      <Choices question={question} first={first} />
      {kind === "number" && <NumberAnswer key={id} question={question} />}
      {editing.value === undefined && (
        <button type="button" class="button quiet assume" onClick={assumeRest}>
          Assume what is usual for this and the rest
        </button>
      )}
    </fieldset>
  );
}

interface ChoicesProps {
  readonly question: Question;
  readonly first: RefObject<HTMLButtonElement | null>;
}

function Choices({ question, first }: ChoicesProps) {
  const { id, choices, fallback } = question;
  return (
    <div class="choices">
      {choices.map(({ value, label }, index) => (
        <button
          key={label}
          ref={index === 0 ? first : null}
          type="button"
          class="button choice"
          aria-pressed={answers.value[id] === value}
          onClick={() => setAnswer(id, value)}
        >
          {label}
          {value === fallback && <small>usual</small>}
        </button>
      ))}
    </div>
  );
}
