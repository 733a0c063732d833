/**
 * Usual policy: what the usual decision tree for retries ends in, so that the advisor can say where
 * its own advice differs. The tree names a jitter and 3 to 5 attempts, with waits from 1 s to 30 s.
 */
import type { JitterType, PolicyDocument } from "@redrive/core";
import type { Answers } from "./questions.ts";

export interface UsualChoice {
  readonly name: string;
  readonly policy: PolicyDocument;
}

export function usualPolicy(answers: Answers): UsualChoice {
  const jitterType = usualJitter(answers);
  const maxAttempts = answers.background === true ? 6 : 5;
  const names = {
    NONE: "no jitter",
    DECORRELATED: "decorrelated jitter",
    EQUAL: "equal jitter",
  } as const;
  const jitter =
    jitterType === "FULL" || jitterType === "PROPORTIONAL" ? "full jitter" : names[jitterType];
  return {
    name: `${jitter}, ${maxAttempts} attempts from 1 s to 30 s`,
    policy: {
      maxAttempts,
      initialDelayMs: 1000,
      maxDelayMs: 30_000,
      jitterType,
      totalBudgetMs: 600_000,
    },
  };
}

/** Its last question wins, as in a tree: background job, then minimum wait, then number of clients. */
function usualJitter({ background, minimumWait, clients }: Answers): JitterType {
  if (background === true) return "DECORRELATED";
  if (minimumWait === true) return "EQUAL";
  return clients === "few" ? "NONE" : "FULL";
}
