/** Answers: validates the answers of a link and formats answers as text. */
import { formatDuration, isObject, nearestName, quote, RedriveError } from "@redrive/core";
import { type Answers, type Question, type QuestionId, questions } from "@redrive/simulator";

export type Value = Question["fallback"];

export function questionOf(id: QuestionId): Question {
  return questions.find((question) => question.id === id) as Question;
}

/** The questions to ask, given these answers. Some answers end the tree early. */
export function askedQuestions(answers: Answers): readonly Question[] {
  return questions.filter(
    ({ skipIf }) => skipIf === undefined || answers[skipIf.id] !== skipIf.value,
  );
}

/** The question without its unit, because the page lets the reader choose the unit. */
export function questionText({ text }: Question): string {
  return text.replace(", in milliseconds", "");
}

export function answerText(question: Question, value: Value): string {
  if (question.id === "outageMs") return formatDuration(Number(value));
  return question.choices.find((choice) => choice.value === value)?.label ?? String(value);
}

/** Throws `INVALID_ARGUMENT` for an unknown question or an invalid answer. */
export function checkAnswers(answers: unknown): Answers {
  if (!isObject(answers))
    throw new RedriveError("INVALID_ARGUMENT", "the answers must be an object");
  for (const [id, value] of Object.entries(answers)) {
    const question = questions.find((one) => one.id === id);
    if (question === undefined) throw unknownQuestion(id);
    const expected = expectedOf(question, value);
    if (expected !== undefined) {
      throw new RedriveError("INVALID_ARGUMENT", `${id} must be ${expected}, got ${quote(value)}`);
    }
  }
  return answers as Answers;
}

function unknownQuestion(id: string): RedriveError {
  const near = nearestName(
    id,
    questions.map((question) => question.id),
  );
  const hint = near === undefined ? "" : `, did you mean ${quote(near)}?`;
  return new RedriveError("INVALID_ARGUMENT", `unknown question ${quote(id)}${hint}`);
}

/** What the answer must be; undefined if it is valid. */
function expectedOf({ kind, choices, min = 0, max = 0 }: Question, value: unknown) {
  if (kind === "choice") {
    const values = choices.map((choice) => choice.value);
    return values.includes(value as Value) ? undefined : `one of ${values.join(", ")}`;
  }
  const isValid = Number.isInteger(value) && Number(value) >= min && Number(value) <= max;
  return isValid ? undefined : `a whole number from ${min} to ${max}`;
}
