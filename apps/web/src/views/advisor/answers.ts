/** Answers: checked against the questions when they come from a link, and told in words. */
import { formatDuration, isObject, nearestName, quote, RedriveError } from "@redrive/core";
import { type Answers, type Question, type QuestionId, questions } from "@redrive/simulator";

export type Value = Question["fallback"];

export function questionOf(id: QuestionId): Question {
  return questions.find((question) => question.id === id) as Question;
}

/** The questions that these answers leave to be asked: some end the tree. */
export function askedQuestions(answers: Answers): readonly Question[] {
  return questions.filter(
    ({ skipIf }) => skipIf === undefined || answers[skipIf.id] !== skipIf.value,
  );
}

/** As the page says it: the unit of a span is chosen, not prescribed. */
export function questionText({ text }: Question): string {
  return text.replace(", in milliseconds", "");
}

export function answerText(question: Question, value: Value): string {
  if (question.id === "outageMs") return formatDuration(Number(value));
  return question.choices.find((choice) => choice.value === value)?.label ?? String(value);
}

/** Throws `INVALID_ARGUMENT` for anything that is no answer to a question. */
export function checkAnswers(answers: unknown): Answers {
  if (!isObject(answers)) throw new RedriveError("INVALID_ARGUMENT", "the answers are no object");
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
  return new RedriveError("INVALID_ARGUMENT", `there is no question ${quote(id)}${hint}`);
}

/** What an answer must be, or undefined if it is. */
function expectedOf({ kind, choices, min = 0, max = 0 }: Question, value: unknown) {
  if (kind === "choice") {
    const values = choices.map((choice) => choice.value);
    return values.includes(value as Value) ? undefined : `one of ${values.join(", ")}`;
  }
  const isFit = Number.isInteger(value) && Number(value) >= min && Number(value) <= max;
  return isFit ? undefined : `a whole number from ${min} to ${max}`;
}
