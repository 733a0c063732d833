/** The code that advice prints is code: its literals are the advised documents, word by word. */
import { expect, test } from "vitest";
import { type Advice, advise } from "../advise/advise.ts";
import { adviceCode } from "./code.ts";

/** The object literal between a call's opening and its end. */
function literalOf(code: string, opening: string): unknown {
  const from = code.indexOf(opening) + opening.length;
  const text = code.slice(from, code.indexOf(");", from));
  return new Function(`return (${text});`)();
}

const advices: readonly Advice[] = [
  advise({}),
  advise({ idempotent: "no", waits: "job", shards: 3 }),
  advise({ waits: "person", clients: "very-many" }),
  advise({ transient: false }),
];

test.each(advices)("advice %# can be pasted", (advice) => {
  const { retry, destination } = adviceCode(advice);
  expect(literalOf(retry, "retry(call, ")).toEqual(advice.policy);
  expect(literalOf(destination, 'destination("dependency", ')).toEqual(advice.destination);
});

test("a policy that asks for a key gets one", () => {
  const { retry, destination } = adviceCode(advise({ idempotent: "key" }));
  expect(retry).toContain('  idempotencyKey: "order-42",\n});');
  expect(destination).toContain('run(call, { idempotencyKey: "order-42" });');
});
