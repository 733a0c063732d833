/**
 * Code for other languages. Where this machine has the language, the code is compiled and run, with
 * doubles of the libraries, and its waits are compared with those of Redrive. The waits of Go, Java
 * and C# are also evaluated as JavaScript, which has the same arithmetic.
 */

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compilePolicy, type PolicyDocument, presets, resolvePolicy } from "@redrive/core";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { type CodeTarget, codeFor } from "./export.ts";
import { functionSyntax, type Syntax, statelessFormula, waitFormula } from "./export-languages.ts";
import { anyPolicy } from "./schedule/policy.testing.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-languages-"));
afterAll(() => rmSync(folder, { recursive: true }));

const POLICIES: readonly PolicyDocument[] = [
  {},
  { jitterType: "NONE", multiplier: 3, maxAttempts: 9, maxDelayMs: 20_000 },
  { jitterType: "EQUAL", backoff: "LINEAR", initialDelayMs: 150, maxDelayMs: 400 },
  { jitterType: "PROPORTIONAL", jitterRatio: 0.2, backoff: "FIXED", initialDelayMs: 1001 },
  { jitterType: "DECORRELATED", initialDelayMs: 50, maxDelayMs: 2_592_000_000 },
  { jitterType: "NONE", backoff: "FIXED", initialDelayMs: 0, maxAttempts: 1 },
  { maxAttempts: 1000, multiplier: 10, retryableStatusCodes: [] },
  presets.webhook,
];

const FAILED = [1, 2, 3, 7, 900];
const DRAWS = [0, 0.25, 0.999999];
const PREVIOUS_MS = 700;
const CASES = FAILED.flatMap((failed) => DRAWS.map((draw) => [failed, draw] as const));

/** The waits of Redrive. A library that does not know the previous wait has full jitter instead. */
function expectedWaits(knowsPrevious: boolean): readonly number[] {
  return POLICIES.flatMap((document) => {
    const isReplaced = document.jitterType === "DECORRELATED" && !knowsPrevious;
    const policy = resolvePolicy(isReplaced ? { ...document, jitterType: "FULL" } : document);
    const compiled = compilePolicy(policy);
    return CASES.map(([failed, draw]) => compiled.delayMs(failed, PREVIOUS_MS, draw));
  });
}

const textsFor = (target: CodeTarget) => POLICIES.map((policy) => codeFor(target, policy).text);

const hasProgram = (name: string, flag = "--version") =>
  spawnSync(name, [flag], { stdio: "ignore" }).status === 0;

function run(program: string, args: readonly string[], input = ""): string {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: folder,
    input,
    encoding: "utf8",
  });
  expect([status, stderr]).toEqual([0, ""]);
  return stdout;
}

const numbersIn = (text: string) => text.trim().split(/\s+/u).map(Number);

// skipped: the machine may have no python3.
describe.skipIf(!hasProgram("python3"))("Python (skipped if there is no python3)", () => {
  /** Doubles of tenacity and requests: `retry` keeps what it was given. */
  const doubles = `
import sys, types
given = {}
class Condition:
    def __init__(self, name, value): self.parts = [[name, value]]
    def __or__(self, other):
        self.parts += other.parts
        return self
tenacity = types.ModuleType("tenacity")
for name in ["stop_after_attempt", "stop_before_delay", "retry_if_exception"]:
    setattr(tenacity, name, lambda value, name=name: Condition(name, value))
def retry(**options):
    given.update(options)
    return lambda function: function
tenacity.retry = retry
sys.modules["tenacity"] = tenacity
sys.modules["requests"] = types.ModuleType("requests")
`;

  test("has the waits and the limits of the policy", () => {
    const policies = textsFor("python").map(
      (text) => `
names = {}
exec(compile(${JSON.stringify(text)}, "code.py", "exec"), names)
for failed, draw in ${JSON.stringify(CASES)}: print(names["wait_ms"](failed, draw))
`,
    );
    const end = `
print(len(given["stop"].parts), *[value for _, value in given["stop"].parts], file=sys.stdout)
class Response: status_code = 503
error = Exception(); error.response = Response()
check = given["retry"].parts[0][1]
print(int(check(error)), int(check(ConnectionError())), int(check(ValueError())))
state = types.SimpleNamespace(attempt_number=1)
print(int(0 <= given["wait"](state) <= 6))
`;
    const numbers = numbersIn(run("python3", ["-"], doubles + policies.join("") + end));
    const waits = expectedWaits(false);
    expect(numbers.slice(0, waits.length)).toEqual(waits);
    const { maxAttempts, totalBudgetMs } = resolvePolicy(presets.webhook);
    const limits = [2, maxAttempts, totalBudgetMs / 1000];
    expect(numbers.slice(waits.length)).toEqual([...limits, 1, 1, 0, 1]);
  });
});

// skipped: the machine may have no rustc.
describe.skipIf(!hasProgram("rustc"))("Rust (skipped if there is no rustc)", () => {
  test("has the waits of the policy, calls until a success, and gives no warning", () => {
    const modules = textsFor("rust").map((text, n) => `mod p${n} {\n${text}\n}`);
    const cases = CASES.map(([failed, draw]) => `(${failed}, ${draw.toFixed(6)})`).join(", ");
    const prints = POLICIES.map(
      (_, n) =>
        `for (failed, draw) in [${cases}] { println!("{}", p${n}::wait_ms(failed, ${PREVIOUS_MS}.0, draw)); }`,
    );
    const retries = POLICIES.map(
      (_, n) => `let mut calls = 0;
    let result = p${n}::retry(|_| { calls += 1; if calls < 2 { Err("no") } else { Ok(7) } }, |_| true, || 0.0);
    println!("{} {}", calls, result.unwrap_or(0));`,
    );
    const code = modules.join("\n").replaceAll("\nfn wait_ms", "\npub fn wait_ms");
    const quick = [0, 6];
    const main = `fn main() {\n${prints.join("\n")}\n${quick.map((n) => retries[n]).join("\n")}\n}`;
    writeFileSync(
      join(folder, "code.rs"),
      `#![deny(warnings)]\n#![allow(dead_code)]\n${code}\n${main}`,
    );
    run("rustc", ["-C", "debuginfo=0", "-o", "rust-code", "code.rs"]);
    const numbers = numbersIn(run(join(folder, "rust-code"), []));
    expect(numbers).toEqual([...expectedWaits(true), 2, 7, 2, 7]);
  });
});

/** The compiler takes seconds, so it runs only in `npm run test:long`, which sets this variable. */
const isLong = process.env["REDRIVE_SEEDS"] !== undefined && hasProgram("javac", "-version");

// skipped: the machine may have no javac, which takes seconds, so only `npm run test:long` runs it.
describe.skipIf(!isLong)("Java, compiled (skipped without javac and in short runs)", () => {
  /** Doubles with the signatures of Resilience4j 2. */
  const doubles = {
    IntervalFunction: `package io.github.resilience4j.core;
public interface IntervalFunction extends java.util.function.Function<Integer, Long> {}`,
    RetryConfig: `package io.github.resilience4j.retry;
import io.github.resilience4j.core.IntervalFunction;
import java.util.function.Predicate;
public class RetryConfig {
  public int attempts; public IntervalFunction interval;
  public static <T> Builder<T> custom() { return new Builder<>(); }
  public static class Builder<T> {
    private final RetryConfig config = new RetryConfig();
    public Builder<T> maxAttempts(int attempts) { config.attempts = attempts; return this; }
    public Builder<T> intervalFunction(IntervalFunction f) { config.interval = f; return this; }
    public Builder<T> retryOnResult(Predicate<T> predicate) { return this; }
    @SafeVarargs public final Builder<T> retryExceptions(Class<? extends Throwable>... classes) { return this; }
    public RetryConfig build() { return config; }
  }
}`,
    Retry: `package io.github.resilience4j.retry;
public interface Retry { static Retry of(String name, RetryConfig config) { return null; } }`,
  };

  test("has the waits and the attempts of the policy", () => {
    const sources = Object.entries(doubles).map(([name, text]) => {
      const path = join(folder, `${name}.java`);
      writeFileSync(path, text);
      return path;
    });
    for (const [n, text] of textsFor("java").entries()) {
      const path = join(folder, `Retries${n}.java`);
      writeFileSync(path, text.replace("final class Retries ", `final class Retries${n} `));
      sources.push(path);
    }
    const cases = CASES.map(([failed, draw]) => `{${failed}, ${draw}}`).join(", ");
    const prints = POLICIES.map(
      (
        _,
        n,
      ) => `for (double[] one : new double[][] {${cases}}) System.out.println(Retries${n}.waitMs((int) one[0], one[1]));
    System.out.println(Retries${n}.CONFIG.attempts);
    Retries${n}.CONFIG.interval.apply(1);`,
    );
    const main = join(folder, "Main.java");
    writeFileSync(
      main,
      `final class Main { public static void main(String[] given) {\n${prints.join("\n")}\n} }`,
    );
    mkdirSync(join(folder, "classes"));
    run("javac", ["-proc:none", "-Xlint:all", "-Werror", "-d", "classes", ...sources, main]);
    const numbers = numbersIn(
      run("java", ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", "classes", "Main"]),
    );
    const waits = expectedWaits(false);
    const expected = POLICIES.flatMap((policy, n) => [
      ...waits.slice(n * CASES.length, (n + 1) * CASES.length),
      resolvePolicy(policy).maxAttempts,
    ]);
    expect(numbers).toEqual(expected);
  });
});

/** Evaluates the lines of wait functions. */
function evaluateWaits(bodies: readonly string[]): readonly number[] {
  return bodies.flatMap((body) => {
    const lines = body.replace(/(?:var |double )?ceiling :?=/u, "const ceiling =");
    const wait = new Function("Math", "failed", "previous", "draw", lines);
    const { floor, min, max, pow } = Math;
    const names = { floor, min, max, pow, Floor: floor, Min: min, Max: max, Pow: pow };
    return CASES.map(([failed, draw]) => wait(names, failed, PREVIOUS_MS, draw) as number);
  });
}

test("Go has the waits of the policy, and imports exactly what it uses", () => {
  const texts = textsFor("go");
  const bodies = texts.map((text) =>
    (/func waitMs.*\{\n([^}]*(?:\}\[[^}]*)?)\n\}/u.exec(text)?.[1] ?? "")
      .replace(/\[\]float64\{(.*?)\}/u, "[$1]")
      .replaceAll("math.", "Math.")
      .replaceAll(/\b(?:float64|int)\(/gu, "("),
  );
  expect(evaluateWaits(bodies)).toEqual(expectedWaits(true));
  for (const text of texts) {
    const [head = "", code = ""] = text.split("\n)\n");
    for (const name of ["context", "math", "rand", "time"]) {
      const isImported = new RegExp(`[/"]${name}"`, "u").test(head);
      expect([name, isImported]).toEqual([name, code.includes(`${name}.`)]);
    }
    // A variable that is not used is an error.
    expect(code.split("ceiling").length).not.toBe(2);
  }
});

test("Java has the waits and the attempts of the policy", () => {
  const texts = textsFor("java");
  const bodies = texts.map((text) =>
    (/static long waitMs.*\n([\s\S]*?)\n {2}\}/u.exec(text)?.[1] ?? "")
      .replace(/new double\[\] \{(.*?)\}/u, "[$1]")
      .replace("(long) ", ""),
  );
  expect(evaluateWaits(bodies)).toEqual(expectedWaits(false));
  for (const [n, text] of texts.entries()) {
    expect(text).toContain(`.maxAttempts(${resolvePolicy(POLICIES[n]).maxAttempts})`);
  }
});

test("C# has the waits of the policy, and options that Polly accepts", () => {
  const texts = textsFor("csharp");
  const withRetry = texts.filter((text) => text.includes("AddRetry"));
  // Polly refuses zero retries, so a policy with one attempt has no retry strategy.
  expect(texts.length - withRetry.length).toBe(1);
  const bodies = texts.map((text) =>
    (/static TimeSpan Wait.*\n\{\n(.*?)\n\}/su.exec(text)?.[1] ?? "return 0;")
      .replace(/new\[\] \{(.*?)\}/u, "[$1]")
      .replace("TimeSpan.FromMilliseconds", ""),
  );
  expect(evaluateWaits(bodies)).toEqual(expectedWaits(false));
  for (const [n, text] of texts.entries()) {
    const timeouts = [...text.matchAll(/AddTimeout\(TimeSpan.FromMilliseconds\((\d+)\)/gu)];
    for (const [, ms] of timeouts) expect(Number(ms)).toBeLessThanOrEqual(86_400_000);
    const { maxAttempts } = resolvePolicy(POLICIES[n]);
    if (maxAttempts > 1) expect(text).toContain(`MaxRetryAttempts = ${maxAttempts - 1},`);
  }
});

// The wait formula gives the waits of Redrive. JavaScript evaluates it here, as any language would.

const syntax: Syntax = {
  ...functionSyntax({
    floor: "Math.floor",
    min: "Math.min",
    max: "Math.max",
    power: "Math.pow",
  }),
  number: String,
  entry: (numbers, position) => `[${numbers}][Math.min(${position}, ${numbers.length}) - 1]`,
  failed: "failed",
  failedNumber: "failed",
};

test("it is the wait of Redrive after every attempt, for every draw and previous wait", () => {
  fc.assert(
    fc.property(
      anyPolicy,
      fc.integer({ min: 1, max: 40 }),
      fc.nat(200_000),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (document, failed, previous, draw) => {
        const policy = resolvePolicy(document);
        const { ceiling, wait } = waitFormula(policy, syntax);
        const names = ["failed", "previous", "draw"];
        const evaluate = new Function(...names, `const ceiling = ${ceiling}; return ${wait};`);
        const expected = compilePolicy(policy).delayMs(failed, previous, draw);
        // A power may be rounded differently, which moves a whole number of milliseconds by one.
        expect(Math.abs(evaluate(failed, previous, draw) - expected)).toBeLessThanOrEqual(2);
      },
    ),
  );
});

test("without the previous wait, full jitter replaces decorrelated jitter", () => {
  const policy = resolvePolicy({ jitterType: "DECORRELATED" });
  expect(waitFormula(policy, syntax).usesPrevious).toBe(true);
  const full = waitFormula(resolvePolicy({ jitterType: "FULL" }), syntax);
  expect(statelessFormula(policy, syntax)).toEqual(full);
});
