/** Code for other libraries: it parses, has the numbers of the policy, and notes what is lost. */

import { presets, resolvePolicy } from "@redrive/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Advice, advise } from "./advise.ts";
import { adviceCode, codeFor, codeTargets, csv } from "./export.ts";
import { anyPolicy } from "./schedule/policy.testing.ts";

/** Runs the code with its imports and `call` replaced, and returns the arguments of the library. */
async function givenTo(text: string, doubles: Readonly<Record<string, unknown>>): Promise<void> {
  const body = text.replace(/^import .*$/gmu, "");
  const names = [...Object.keys(doubles), "call"];
  const AsyncFunction = (async () => {}).constructor as new (
    ...args: string[]
  ) => (...values: unknown[]) => Promise<void>;
  await new AsyncFunction(...names, body)(...Object.values(doubles), () => 1);
}

test("Redrive's code passes the document itself", async () => {
  let given: unknown;
  const retry = async (_call: unknown, options: unknown) => {
    given = options;
  };
  await givenTo(codeFor("redrive", presets.webhook).text, { retry });
  expect(given).toEqual(presets.webhook);
});

test("p-retry gets the same curve", async () => {
  let given: unknown;
  const pRetry = async (_call: unknown, options: unknown) => {
    given = options;
  };
  const { text, notes } = codeFor("p-retry", { maxAttempts: 4, initialDelayMs: 200 });
  await givenTo(text, { pRetry });
  expect(given).toEqual({
    retries: 3,
    minTimeout: 200,
    maxTimeout: 30_000,
    factor: 2,
    randomize: true,
    maxRetryTime: 30_000,
  });
  expect(notes.join(" ")).toContain("instead of FULL");
});

test("cockatiel gets one attempt less, because it counts retries", async () => {
  const made: unknown[] = [];
  class ExponentialBackoff {
    constructor(options: object) {
      made.push(options);
    }
  }
  const retry = (_handle: unknown, options: { readonly maxAttempts: number }) => {
    made.push(options.maxAttempts);
    return { execute: async () => 1 };
  };
  const { text, notes } = codeFor("cockatiel", {
    maxAttempts: 4,
    jitterType: "EQUAL",
    multiplier: 3,
  });
  await givenTo(text, { ExponentialBackoff, retry, handleAll: 0, halfJitterGenerator: "half" });
  expect(made).toEqual([
    { initialDelay: 100, exponent: 3, maxDelay: 30_000, generator: "half" },
    3,
  ]);
  expect(notes).toContain("cockatiel always doubles with this jitter and ignores exponent.");
});

test("cockatiel gets a list of waits unchanged", () => {
  expect(codeFor("cockatiel", presets.webhook).text).toContain("new IterableBackoff([5000,300000,");
});

test("the AWS SDK gets attempts and mode, in code and as its config file", () => {
  const { text } = codeFor("aws", { maxAttempts: 4 });
  expect(text).toContain('maxAttempts: 4, retryMode: "standard"');
  expect(text).toContain("retry_mode = standard\nmax_attempts = 4");
});

test("every policy has code for every target, with notes in sentences", () => {
  fc.assert(
    fc.property(anyPolicy, (policy) => {
      for (const { id } of codeTargets) {
        const { text, notes, language } = codeFor(id, policy);
        if (language === "json") expect(JSON.parse(text)).toHaveProperty("methodConfig");
        if (language === "ts")
          expect(
            () => new Function(`async () => {${text.replace(/^import .*$/gmu, "")}}`),
          ).not.toThrow();
        for (const note of notes) expect(note).toMatch(/^\S.*[.]$/u);
        expect(resolvePolicy(policy).maxAttempts).toBeGreaterThan(0);
      }
    }),
    { numRuns: 200 },
  );
});

// The code of an advice is valid: its literals are the advised documents.

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
  expect(destination).toContain('run(call, { idempotencyKey: "order-42", patience: "wait" });');
});

// CSV follows RFC 4180, so spreadsheets can read it.

test("CSV quotes fields that need it", () => {
  expect(
    csv([
      ["a", 1, undefined],
      ['say "hi"', "x,y", "two\nlines"],
    ]),
  ).toBe('a,1,\n"say ""hi""","x,y","two\nlines"\n');
});
