/** The advisor asks in its order, skips what no longer matters, and takes other values too. */
import { questions } from "@redrive/simulator";
import { expect, test } from "vitest";
import { redrive, redriveJson } from "../program.testing.ts";
import { answerFlags } from "./advise.ts";
import { type AnswerValue, askAnswers, type Prompter } from "./advise-questions.ts";

/** Answers by the text of a question, or takes the fallback; what is written comes from a list. */
function scripted(answers: Readonly<Record<string, AnswerValue>>, written: string[] = []) {
  const asked: string[] = [];
  const problems: (string | undefined)[] = [];
  const prompter: Prompter = {
    choose: async ({ text, fallback }) => {
      asked.push(text);
      const found = Object.keys(answers).find((part) => text.includes(part));
      return found === undefined ? fallback : answers[found];
    },
    enterText: async (_, problem) => {
      for (let next = written.shift(); next !== undefined; next = written.shift()) {
        problems.push(problem(next));
        if (problem(next) === undefined) return next;
      }
      return undefined;
    },
  };
  return { prompter, asked, problems };
}

test("every question is asked, and fallbacks are answers", async () => {
  const { prompter, asked } = scripted({});
  const answers = await askAnswers(prompter);
  expect(asked).toHaveLength(questions.length);
  expect(answers).toMatchObject({ transient: true, clients: "many", outageMs: 8000 });
});

test("nothing more is asked of a permanent error", async () => {
  const { prompter, asked } = scripted({ transient: false });
  expect(await askAnswers(prompter)).toEqual({ transient: false });
  expect(asked).toHaveLength(1);
});

test("another outage may be written as a duration, once it is one", async () => {
  const { prompter, problems } = scripted({ "longest outage": "other" }, ["90", "48h", "90s"]);
  expect(await askAnswers(prompter)).toMatchObject({ outageMs: 90_000 });
  expect(problems.map((problem) => problem !== undefined)).toEqual([true, true, false]);
});

test("leaving ends the questions", async () => {
  const { prompter } = scripted({ "longest outage": "other" }, []);
  expect(await askAnswers(prompter)).toBeUndefined();
});

test("flags answer the questions; what was not answered is marked", async () => {
  const { out, code } = await redrive(
    "advise --errors transient --idempotent key --clients 400 --background yes --outage 10m --tiers 3",
  );
  expect(code).toBe(0);
  expect(out).toMatch(/Who waits for the answer\? +Another service, assumed/u);
  expect(out).toMatch(/the usual tree +decorrelated jitter, 6 attempts from 1 s to 30 s +0 %/u);
  expect(out).toContain('await dependency.run(call, { idempotencyKey: "order-42" });');
});

test("a count of clients becomes the tree's class", async () => {
  const clientsOf = async (count: string) =>
    (await redriveJson<{ answers: object }>(`advise --clients ${count}`)).answers;
  expect(await clientsOf("9")).toEqual({ clients: "few" });
  expect(await clientsOf("1000")).toEqual({ clients: "many" });
  expect(await clientsOf("1001")).toEqual({ clients: "very-many" });
});

test("the flags that are told after asking lead to the same advice", async () => {
  const answers = {
    transient: true,
    clients: "very-many",
    background: true,
    outageMs: 90_000,
  } as const;
  const words = answerFlags(answers).join(" ");
  expect((await redriveJson<{ answers: object }>(`advise ${words}`)).answers).toEqual(answers);
  expect(answerFlags({ transient: false, minimumWait: false })).toEqual(["--errors", "permanent"]);
});
