/**
 * Advise questions: asks the user the advisor's questions in order and skips those that no longer
 * matter. The prompter draws the prompts.
 */
import { parseDuration } from "@redrive/core";
import { type Answers, type Question, questions } from "@redrive/simulator";

export type AnswerValue = string | number | boolean;

export interface Prompter {
  /** Returns one of several choices, or undefined if the user canceled. */
  choose(options: {
    readonly text: string;
    readonly help: string;
    readonly choices: readonly { readonly value: AnswerValue; readonly label: string }[];
    readonly fallback: AnswerValue;
  }): Promise<AnswerValue | undefined>;

  /** Returns a text for which `problem` is undefined, or undefined if the user canceled. */
  enterText(
    text: string,
    problem: (answer: string) => string | undefined,
  ): Promise<string | undefined>;
}

/** The choice to enter a value that is not among the suggestions. */
const OTHER_VALUE = "other";

/** Returns all answers, or undefined if the user canceled. */
export async function askAnswers(prompter: Prompter): Promise<Answers | undefined> {
  const answers: Record<string, AnswerValue> = {};
  for (const question of questions) {
    const { skipIf } = question;
    if (skipIf !== undefined && answers[skipIf.id] === skipIf.value) continue;
    const answer = await ask(prompter, question);
    if (answer === undefined) return undefined;
    answers[question.id] = answer;
  }
  return answers as Answers;
}

async function ask(prompter: Prompter, question: Question): Promise<AnswerValue | undefined> {
  const { help, choices, fallback, kind } = question;
  const text = question.text.replace(", in milliseconds", "");
  const more = kind === "number" ? [{ value: OTHER_VALUE, label: "Another ..." }] : [];
  const chosen = await prompter.choose({ text, help, choices: [...choices, ...more], fallback });
  if (chosen !== OTHER_VALUE || kind !== "number") return chosen;
  const written = await prompter.enterText(numberPrompt(question), (answer) =>
    validationProblem(question, answer),
  );
  return written === undefined ? undefined : parseNumber(question, written);
}

function numberPrompt({ id, min = 0, max = 0 }: Question): string {
  return id === "outageMs"
    ? 'How long, such as "90s" or "2h"?'
    : `How many, from ${min} to ${max}?`;
}

function parseNumber({ id }: Question, answer: string): number | undefined {
  if (id === "outageMs") return parseDuration(answer.trim());
  return /^\d{1,9}$/u.test(answer.trim()) ? Number(answer) : undefined;
}

function validationProblem(question: Question, answer: string): string | undefined {
  const { min = 0, max = Number.MAX_SAFE_INTEGER } = question;
  const value = parseNumber(question, answer);
  if (value !== undefined && value >= min && value <= max) return undefined;
  return question.id === "outageMs"
    ? 'Must be a duration such as "90s", at most "24h".'
    : `Must be from ${min} to ${max}.`;
}
