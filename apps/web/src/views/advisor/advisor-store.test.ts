/** Advisor store: a link is checked like `advise` checks its input, and answers get labels. */
import { type Answers, advise, type Question, questions } from "@redrive/simulator";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  answerText,
  askedQuestions,
  changesText,
  checkAnswers,
  questionOf,
  questionText,
} from "./advisor-store.ts";

describe("answers", () => {
  it("are rejected exactly if advise rejects them", () => {
    const value = fc.oneof(
      fc.constantFrom("yes", "no", "key", "few", "very-many", "person", "", null),
      fc.boolean(),
      fc.integer({ min: -2, max: 1200 }),
      fc.double(),
    );
    const ids = [...questions.map(({ id }) => id), "client"];
    const answers = fc.dictionary(fc.constantFrom(...ids), value, { maxKeys: 2 });
    const rejects = (check: (those: Answers) => unknown, those: object) => {
      try {
        check(those);
        return false;
      } catch {
        return true;
      }
    };
    fc.assert(
      fc.property(answers, (those) => {
        expect(rejects(checkAnswers, those)).toBe(rejects(advise, those));
      }),
      { numRuns: 60 },
    );
  });

  it("are rejected with a message that says what is valid", () => {
    expect(() => checkAnswers({ clientz: "few" })).toThrow('did you mean "clients"?');
    expect(() => checkAnswers({ tiers: 9 })).toThrow(
      "tiers must be a whole number from 1 to 8, got 9",
    );
    expect(() => checkAnswers({ waits: "nobody" })).toThrow("one of person, service, job");
    expect(() => checkAnswers([])).toThrow("must be an object");
  });

  it("skip the questions that the tree does not need", () => {
    expect(askedQuestions({ transient: false }).map(({ id }) => id)).toEqual(["transient"]);
    expect(askedQuestions({ transient: true })).toEqual(questions);
  });

  it("are shown with labels and durations", () => {
    const text = (id: Question["id"], value: Question["fallback"]) =>
      answerText(questionOf(id), value);
    expect([text("waits", "person"), text("outageMs", 90_000), text("tiers", 3)]).toEqual([
      "A person",
      "90 s",
      "3",
    ]);
    expect(questionText(questionOf("outageMs"))).toBe(
      "What is the longest outage it should survive?",
    );
  });
});

test("says what an answer sets, and what it removes", () => {
  const changes = { maxAttempts: 1, jitterType: undefined, initialDelayMs: undefined };
  expect(changesText(changes)).toBe("sets attempts to 1; removes the jitter, the first wait");
  expect(changesText({ requireIdempotencyKey: true })).toBe("sets idempotency key to required");
  expect(changesText({ retryableStatusCodes: [], retryableErrors: ["connect", "dns"] })).toBe(
    "sets retried statuses to none, retried errors to connect, dns",
  );
  expect(changesText({})).toBe("");
});
