/** The advisor asks in order, skips questions that no longer matter, and accepts other values. */
import { questions } from "@redrive/simulator";
import { expect, test } from "vitest";
import { redrive, redriveJson } from "../program.testing.ts";
import { type AnswerValue, answerFlags, askAnswers, type Prompter } from "./advise.ts";

/** Answers by the text of a question, else with the fallback. Entered texts come from a list. */
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

test("asks every question and offers a fallback for each", async () => {
  const { prompter, asked } = scripted({});
  const answers = await askAnswers(prompter);
  expect(asked).toHaveLength(questions.length);
  expect(answers).toMatchObject({ transient: true, clients: "many", outageMs: 8000 });
});

test("asks nothing more for a permanent error", async () => {
  const { prompter, asked } = scripted({ transient: false });
  expect(await askAnswers(prompter)).toEqual({ transient: false });
  expect(asked).toHaveLength(1);
});

test("accepts another outage as a duration and rejects invalid ones", async () => {
  const { prompter, problems } = scripted({ "longest outage": "other" }, ["90", "48h", "90s"]);
  expect(await askAnswers(prompter)).toMatchObject({ outageMs: 90_000 });
  expect(problems.map((problem) => problem !== undefined)).toEqual([true, true, false]);
});

test("returns no answers if the user cancels", async () => {
  const { prompter } = scripted({ "longest outage": "other" }, []);
  expect(await askAnswers(prompter)).toBeUndefined();
});

test("flags answer the questions, and assumed answers are marked", async () => {
  const { out, code } = await redrive(
    "advise --errors transient --idempotent key --clients 400 --background yes --outage 10m --tiers 3",
  );
  expect(code).toBe(0);
  expect(out).toMatch(/Who waits for the response\? +Another service \(assumed\)/u);
  expect(out).toMatch(/usual tree +decorrelated jitter, 6 attempts from 1 s to 30 s +0 %/u);
  expect(out).toContain(
    'await dependency.run(call, { idempotencyKey: "order-42", patience: "wait" });',
  );
});

test("a number of clients is mapped to a class", async () => {
  const clientsOf = async (count: string) =>
    (await redriveJson<{ answers: object }>(`advise --clients ${count}`)).answers;
  expect(await clientsOf("9")).toEqual({ clients: "few" });
  expect(await clientsOf("1000")).toEqual({ clients: "many" });
  expect(await clientsOf("1001")).toEqual({ clients: "very-many" });
});

test("the printed flags lead to the same advice", async () => {
  const answers = {
    transient: true,
    clients: "very-many",
    background: true,
    outageMs: 90_000,
  } as const;
  const flags = answerFlags(answers).join(" ");
  expect((await redriveJson<{ answers: object }>(`advise ${flags}`)).answers).toEqual(answers);
  expect(answerFlags({ transient: false, minimumWait: false })).toEqual(["--errors", "permanent"]);
});
