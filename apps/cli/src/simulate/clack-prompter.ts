/** Clack prompter: draws the advisor's questions on a terminal with @clack/prompts. */
import { isCancel, select, text as writeText } from "@clack/prompts";
import type { AnswerValue, Prompter } from "./advise-questions.ts";

export function clackPrompter(): Prompter {
  return {
    async choose({ text, help, choices, fallback }) {
      const options = choices.map(({ value, label }) => ({ value, label }));
      const message = `${text}\n${help}`;
      const chosen = await select<AnswerValue>({ message, options, initialValue: fallback });
      return isCancel(chosen) ? undefined : chosen;
    },
    async enterText(text, problem) {
      const written = await writeText({
        message: text,
        validate: (answer) => problem(answer ?? ""),
      });
      return isCancel(written) ? undefined : written;
    },
  };
}
