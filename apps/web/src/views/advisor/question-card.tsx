/** Question card: the current question with buttons or a number field. */
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
  const position = asked.value.findIndex((one) => one.id === id) + 1;
  return (
    <fieldset class="card question">
      <legend>
        <span class="question-position">
          Question {position} of {asked.value.length}
        </span>{" "}
        {questionText(question)}
      </legend>
      <p class="faint">{help}</p>
      <Choices question={question} first={first} />
      {kind === "number" && <NumberAnswer key={id} question={question} />}
      {editing.value === undefined && (
        <button type="button" class="button quiet use-defaults" onClick={assumeRest}>
          Use the defaults from here on
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
          {value === fallback && <small>default</small>}
        </button>
      ))}
    </div>
  );
}
