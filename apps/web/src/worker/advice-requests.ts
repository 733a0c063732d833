/** Advice requests: the advice for a set of answers, and what each answer changed. */
import { type Advice, type Answers, advise, type QuestionId, questions } from "@redrive/simulator";

/** Fields of the policy and the destination by name; undefined if a field was removed. */
type Fields = Readonly<Record<string, unknown>>;

interface AdviceStep {
  readonly id: QuestionId;
  /** The fields that this answer changed, after all earlier answers. */
  readonly changes: Fields;
}

export interface AdviceResult {
  readonly advice: Advice;
  readonly fields: Fields;
  readonly steps: readonly AdviceStep[];
}

/** Applies the answers one by one, in the order of the questions. */
export function adviseInSteps(answers: Answers): AdviceResult {
  const steps: AdviceStep[] = [];
  let given: Answers = {};
  let before = fieldsOf(advise(given));
  for (const { id } of questions) {
    if (answers[id] === undefined) continue;
    given = { ...given, [id]: answers[id] };
    const after = fieldsOf(advise(given));
    steps.push({ id, changes: changesBetween(before, after) });
    before = after;
  }
  const advice = advise(answers);
  return { advice, fields: fieldsOf(advice), steps };
}

function fieldsOf({ destination, policy }: Advice): Fields {
  const { policy: _, ...guards } = destination;
  return { ...policy, ...guards };
}

function changesBetween(before: Fields, after: Fields): Fields {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return Object.fromEntries(
    names
      .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
      .map((name) => [name, after[name]]),
  );
}
