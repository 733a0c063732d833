/** Tests that the future contains what the policy can draw, and that a shell passes curl on. */
import { execFileSync } from "node:child_process";
import { compiledPolicyOf, type PolicyDocument, resolvePolicy } from "@redrive/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import { curlCommand, futureOf } from "./task-page.tsx";

const NOW = 1_000_000;
const task = {
  status: "PENDING",
  attemptNumber: 1,
  nextAttemptAt: 1_000_000 + 100,
  createdAt: 1_000_000,
  scheduledAt: 1_000_000,
  deadlineAt: null,
  lastDelayMs: 100,
} as const;

test("a policy without jitter has exact instants, up to its last attempt", () => {
  const policy = resolvePolicy({ maxAttempts: 4, initialDelayMs: 100, jitterType: "NONE" });
  expect(futureOf(task, policy, NOW)).toEqual({
    attempts: [
      { attempt: 2, earliestAt: 1_000_100, latestAt: 1_000_100 },
      { attempt: 3, earliestAt: 1_000_300, latestAt: 1_000_300 },
      { attempt: 4, earliestAt: 1_000_700, latestAt: 1_000_700 },
    ],
    giveUpAt: 1_030_000,
    more: 0,
  });
});

test("nothing starts after the deadline, and a long list is cut", () => {
  const policy = resolvePolicy({ maxAttempts: 50, initialDelayMs: 100, backoff: "FIXED" });
  const future = futureOf({ ...task, deadlineAt: 1_000_500 }, policy, NOW);
  expect(future?.giveUpAt).toBe(1_000_500);
  expect(Math.max(...(future?.attempts ?? []).map(({ latestAt }) => latestAt))).toBe(1_000_500);
  expect(future?.attempts).toHaveLength(12);
  expect(future?.more).toBe(37);
});

test("a held attempt starts when the hold ends, as far as that is known", () => {
  const policy = resolvePolicy({ maxAttempts: 3, initialDelayMs: 100, jitterType: "NONE" });
  const held = { cause: "circuit-open", sinceAt: NOW, untilAt: NOW + 5000 } as const;
  const starts = (wait: typeof held | null, now: number) =>
    futureOf({ ...task, wait }, policy, now)?.attempts.map(({ earliestAt }) => earliestAt - NOW);
  expect(starts(held, NOW + 200)).toEqual([5000, 5200]);
  expect(starts(null, NOW + 200)).toEqual([200, 400]);
  expect(starts(null, NOW + 40_000)).toEqual([]);
});

test("a task that runs or has ended has no future", () => {
  const policy = resolvePolicy({});
  expect(futureOf({ ...task, status: "IN_FLIGHT" }, policy, NOW)).toBeUndefined();
  expect(
    futureOf({ ...task, status: "EXHAUSTED", nextAttemptAt: null }, policy, NOW),
  ).toBeUndefined();
});

const policies = fc.record({
  maxAttempts: fc.integer({ min: 2, max: 11 }),
  initialDelayMs: fc.integer({ min: 0, max: 5000 }),
  jitterType: fc.constantFrom("FULL", "EQUAL", "DECORRELATED", "PROPORTIONAL", "NONE"),
  totalBudgetMs: fc.integer({ min: 10_000, max: 600_000 }),
}) as fc.Arbitrary<PolicyDocument>;

test("every drawn schedule lies within the ranges", () => {
  fc.assert(
    fc.property(
      policies,
      fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), {
        minLength: 12,
        maxLength: 12,
      }),
      (document, draws) => {
        const policy = resolvePolicy(document);
        const compiled = compiledPolicyOf(policy);
        const future = futureOf(task, policy, NOW);
        let at: number = task.nextAttemptAt;
        let delay: number = task.lastDelayMs;
        for (const [index, { attempt, earliestAt, latestAt }] of (
          future?.attempts ?? []
        ).entries()) {
          expect(earliestAt).toBeLessThanOrEqual(latestAt);
          if (at <= (future?.giveUpAt ?? 0)) {
            expect(at).toBeGreaterThanOrEqual(earliestAt);
            expect(at).toBeLessThanOrEqual(latestAt);
          }
          delay = compiled.delayMs(attempt, delay, draws[index] as number);
          at += delay;
        }
      },
    ),
  );
});

/** The arguments that curl gets, and its standard input. */
function argumentsOf(command: string): readonly string[] {
  const script = `curl() { printf '%s\\0' "$@"; case " $* " in *" @- "*) cat;; esac; }\n${command}`;
  return execFileSync("sh", ["-c", script], { encoding: "utf8" }).split("\0");
}

const request = (fields: object) => ({
  method: "POST",
  targetUrl: "http://127.0.0.1/hook?a=[1-3]&b=$HOME",
  headers: {},
  bodyRef: null,
  ...fields,
});

test("a shell passes hostile headers, bodies and URLs on unchanged", () => {
  const body = "@/etc/passwd '; rm -rf / #\n$(id) `id` \"\\";
  const command = curlCommand(request({ headers: { "x-a": "it's; $(id)" }, body }));
  expect(argumentsOf(command).slice(0, -1)).toEqual([
    "--globoff",
    "--request",
    "POST",
    "--header",
    "x-a: it's; $(id)",
    "--data-raw",
    body,
    "http://127.0.0.1/hook?a=[1-3]&b=$HOME",
  ]);
});

test("any text without NUL reaches curl as it is", () => {
  const text = fc.string({ unit: "grapheme" }).filter((one) => !one.includes("\0"));
  fc.assert(
    fc.property(text, (body) => {
      expect(argumentsOf(curlCommand(request({ body })))).toContain(body);
    }),
    { numRuns: 15 },
  );
});

test("bytes and text with NUL arrive on standard input", () => {
  expect(argumentsOf(curlCommand(request({ bodyBase64: btoa("raw bytes") }))).at(-1)).toBe(
    "raw bytes",
  );
  expect(curlCommand(request({ body: "a\0b" }))).toContain("base64 -d");
});

test("a body in the blob store is read from a file", () => {
  expect(argumentsOf(curlCommand(request({ bodyRef: "id.3.abc" })))).toContain("@body");
});

test("a task without a body has none in the command", () => {
  expect(curlCommand(request({ method: "HEAD" }))).toBe(
    "curl --globoff --head \\\n  'http://127.0.0.1/hook?a=[1-3]&b=$HOME'",
  );
});
