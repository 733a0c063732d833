/** The code of an advice is valid: its literals are the advised documents. */
import { expect, test } from "vitest";
import { type Advice, advise } from "../advise/advise.ts";
import { adviceCode } from "./code.ts";

/** The object literal between the start and the end of a call. */
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

test.each(advices)("the code of advice %# is valid", (advice) => {
  const { retry, destination } = adviceCode(advice);
  expect(literalOf(retry, "retry(call, ")).toEqual(advice.policy);
  expect(literalOf(destination, 'destination("dependency", ')).toEqual(advice.destination);
});

test("a policy that requires a key gets one", () => {
  const { retry, destination } = adviceCode(advise({ idempotent: "key" }));
  expect(retry).toContain('  idempotencyKey: "order-42",\n});');
  expect(destination).toContain('run(call, { idempotencyKey: "order-42" });');
});
