/**
 * Code in other languages: a policy for Python, Go, Java, C# and Rust, with the waits of Redrive,
 * and sentences on what the code leaves out.
 */
import { formatCount, formatDuration, type Policy } from "@redrive/core";

export interface TargetCode {
  readonly language: "ts" | "json" | "ini" | "python" | "go" | "java" | "csharp" | "rust";
  readonly text: string;
  /** Sentences on what the target does differently. */
  readonly notes: readonly string[];
}

// Python code: a policy for tenacity, with the waits of Redrive.

const pythonNames = { floor: "math.floor", min: "min", max: "max", power: "pow" };

const pythonSyntax: Syntax = {
  ...functionSyntax(pythonNames),
  // Python raises an error where other languages return infinity.
  power: (base, exponent, limit) => `${base} ** min(${exponent}, ${limit})`,
  number: String,
  entry: (numbers, position) => `[${numbers.join(", ")}][min(${position}, ${numbers.length}) - 1]`,
  failed: "failed",
  failedNumber: "failed",
};

export function pythonCode(policy: Policy): TargetCode {
  const { maxAttempts, totalBudgetMs, attemptTimeoutMs, retryableStatusCodes } = policy;
  const { ceiling, wait } = statelessFormula(policy, pythonSyntax);
  const body = `ceiling = ${ceiling}\n    return ${wait}`;
  const math = body.includes("math.") ? "import math\n" : "";
  const text = `${math}import random

import requests
from tenacity import retry, retry_if_exception, stop_after_attempt, stop_before_delay

RETRYABLE_STATUSES = {${retryableStatusCodes.join(", ")}}


def wait_ms(failed, draw):
    """The wait after the failed attempt 1, 2, 3, ... \`draw\` is from 0 to below 1."""
    ${body}


def is_retryable(error):
    status = getattr(getattr(error, "response", None), "status_code", None)
    return isinstance(error, OSError) if status is None else status in RETRYABLE_STATUSES


@retry(
    stop=stop_after_attempt(${maxAttempts}) | stop_before_delay(${totalBudgetMs / 1000}),
    wait=lambda state: wait_ms(state.attempt_number, random.random()) / 1000,
    retry=retry_if_exception(is_retryable),
    reraise=True,
)
def call(url):
    response = requests.get(url, timeout=${attemptTimeoutMs / 1000})
    response.raise_for_status()
    return response`;
  const notes = [
    ...languageNotes(policy, { who: "tenacity", knowsPrevious: false }),
    "stop_before_delay needs tenacity 8.3. It ends before a wait that would exceed the time, and does not shorten an attempt.",
    "The timeout of requests is for the connection and for each read, not for the whole attempt.",
  ];
  return { language: "python", text, notes };
}

// Go code: a policy as a function of the standard library, with the waits of Redrive.

const goNames = { floor: "math.Floor", min: "math.Min", max: "math.Max", power: "math.Pow" };

const goSyntax: Syntax = {
  ...functionSyntax(goNames),
  power: (base, exponent) => `math.Pow(${base}, float64(${exponent}))`,
  number: floatLiteral,
  entry: (numbers, position) =>
    `[]float64{${numbers.join(", ")}}[int(math.Min(float64(${position}), ${numbers.length}))-1]`,
  failed: "failed",
  failedNumber: "float64(failed)",
};

export function goCode(policy: Policy): TargetCode {
  const formula = waitFormula(policy, goSyntax);
  const code = `${goWaitFunction(formula)}\n\n${goRetryFunction(policy, formula)}`;
  const text = `package retries\n\n${goImportsOf(code)}\n\n${code}`;
  const notes = [
    ...languageNotes(policy, { who: "This code", knowsPrevious: true }),
    statusNote(policy),
    ...(formula.draws
      ? ["Before Go 1.20, seed math/rand once: otherwise all processes draw the same."]
      : []),
  ];
  return { language: "go", text, notes };
}

/** Go refuses variables and packages that are not used. */
function goWaitFunction({ ceiling, wait, usesPrevious }: WaitFormula): string {
  const first = usesPrevious ? "" : `\tceiling := ${ceiling}\n`;
  return `// waitMs is the wait after the failed attempt 1, 2, 3, ... The draw is from 0 to below 1.
func waitMs(failed int, previous, draw float64) float64 {
${first}\treturn ${wait}
}`;
}

function goRetryFunction(policy: Policy, { draws }: WaitFormula): string {
  const { maxAttempts, totalBudgetMs, attemptTimeoutMs } = policy;
  return `// Retry calls until there is no error, at most ${formatCount(maxAttempts, "time")} and for at most ${formatDuration(totalBudgetMs)}.
func Retry(ctx context.Context, call func(context.Context) error, isRetryable func(error) bool) error {
	ctx, cancel := context.WithTimeout(ctx, ${totalBudgetMs}*time.Millisecond)
	defer cancel()
	deadline, _ := ctx.Deadline()
	previous := 0.0
	for attempt := 1; ; attempt++ {
		err := attemptOnce(ctx, call)
		if err == nil || attempt >= ${maxAttempts} || !isRetryable(err) {
			return err
		}
		previous = waitMs(attempt, previous, ${draws ? "rand.Float64()" : "0"})
		wait := time.Duration(previous) * time.Millisecond
		if time.Until(deadline) <= wait {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

func attemptOnce(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, ${attemptTimeoutMs}*time.Millisecond)
	defer cancel()
	return call(ctx)
}`;
}

function goImportsOf(code: string): string {
  const used = ["context", "math", "math/rand", "time"].filter((path) => {
    const name = path.slice(path.lastIndexOf("/") + 1);
    return new RegExp(`\\b${name}\\.`, "u").test(code);
  });
  return `import (\n${used.map((path) => `\t"${path}"\n`).join("")})`;
}

// Java code: a policy for Resilience4j, with the waits of Redrive.

const javaNames = { floor: "Math.floor", min: "Math.min", max: "Math.max", power: "Math.pow" };

const javaSyntax: Syntax = {
  ...functionSyntax(javaNames),
  number: floatLiteral,
  entry: (numbers, position) =>
    `new double[] {${numbers.join(", ")}}[Math.min(${position}, ${numbers.length}) - 1]`,
  failed: "failed",
  failedNumber: "failed",
};

export function javaCode(policy: Policy): TargetCode {
  const { maxAttempts, attemptTimeoutMs, totalBudgetMs, retryableStatusCodes } = policy;
  const { ceiling, wait } = statelessFormula(policy, javaSyntax);
  // `Set.of` refuses a number that is given twice.
  const statuses = [...new Set(retryableStatusCodes)].join(", ");
  const text = `import io.github.resilience4j.retry.Retry;
import io.github.resilience4j.retry.RetryConfig;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

final class Retries {
  static final Set<Integer> RETRYABLE_STATUSES = Set.of(${statuses});

  static final RetryConfig CONFIG = RetryConfig.<HttpResponse<String>>custom()
      .maxAttempts(${maxAttempts})
      .intervalFunction(failed -> waitMs(failed, ThreadLocalRandom.current().nextDouble()))
      .retryOnResult(response -> RETRYABLE_STATUSES.contains(response.statusCode()))
      .retryExceptions(IOException.class)
      .build();

  static final Retry RETRY = Retry.of("call", CONFIG);

  /** The wait after the failed attempt 1, 2, 3, ... The draw is from 0 to below 1. */
  static long waitMs(int failed, double draw) {
    double ceiling = ${ceiling};
    return (long) (${wait});
  }
}

// HttpResponse<String> response = Retries.RETRY.executeCallable(() -> client.send(request, BodyHandlers.ofString()));`;
  const notes = [
    ...languageNotes(policy, { who: "Resilience4j", knowsPrevious: false }),
    `Resilience4j's Retry has no timeout: give the request one of ${formatDuration(attemptTimeoutMs)} (HttpRequest.Builder.timeout).`,
    `Resilience4j has no total budget: stop the call after ${formatDuration(totalBudgetMs)} if you need one (TimeLimiter).`,
  ];
  return { language: "java", text, notes };
}

// C# code: a policy for Polly 8, with the waits of Redrive.

const csharpNames = { floor: "Math.Floor", min: "Math.Min", max: "Math.Max", power: "Math.Pow" };

const csharpSyntax: Syntax = {
  ...functionSyntax(csharpNames),
  number: floatLiteral,
  entry: (numbers, position) =>
    `new[] { ${numbers.join(", ")} }[Math.Min(${position}, ${numbers.length}) - 1]`,
  failed: "failed",
  failedNumber: "failed",
};

/** Polly accepts timeouts up to one day. */
const MAX_POLLY_TIMEOUT_MS = 86_400_000;

export function csharpCode(policy: Policy): TargetCode {
  const { maxAttempts, attemptTimeoutMs, totalBudgetMs } = policy;
  const hasTotal = totalBudgetMs >= 10 && totalBudgetMs <= MAX_POLLY_TIMEOUT_MS;
  const lines = [
    "var pipeline = new ResiliencePipelineBuilder()",
    ...(hasTotal ? [`    .AddTimeout(TimeSpan.FromMilliseconds(${totalBudgetMs}))`] : []),
    ...(maxAttempts > 1 ? [csharpRetryStrategy(maxAttempts)] : []),
    `    .AddTimeout(TimeSpan.FromMilliseconds(${attemptTimeoutMs}))`,
    "    .Build();",
  ];
  const text = `using Polly;
using Polly.Retry;
using Polly.Timeout;

${lines.join("\n")}

using var client = new HttpClient();
using var response = await pipeline.ExecuteAsync(async token =>
{
    var received = await client.GetAsync("https://example.com/orders", token);
    return received.EnsureSuccessStatusCode();
});
${maxAttempts > 1 ? csharpHelpers(policy) : ""}`;
  const notes = [
    ...languageNotes(policy, { who: "Polly", knowsPrevious: false }),
    `Polly counts retries: MaxRetryAttempts is ${maxAttempts - 1}.`,
    ...(hasTotal
      ? []
      : [
          `Polly has timeouts from 10 ms to 1 day: the total budget of ${formatDuration(totalBudgetMs)} is left out.`,
        ]),
  ];
  return { language: "csharp", text: text.trimEnd(), notes };
}

/** Polly refuses zero retries. It counts failed attempts from 0. */
function csharpRetryStrategy(maxAttempts: number): string {
  return `    .AddRetry(new RetryStrategyOptions
    {
        MaxRetryAttempts = ${maxAttempts - 1},
        ShouldHandle = new PredicateBuilder()
            .Handle<HttpRequestException>(IsRetryable)
            .Handle<TimeoutRejectedException>(),
        DelayGenerator = args =>
            new ValueTask<TimeSpan?>(Wait(args.AttemptNumber + 1, Random.Shared.NextDouble())),
    })`;
}

function csharpHelpers(policy: Policy): string {
  const { ceiling, wait } = statelessFormula(policy, csharpSyntax);
  return `
// The wait after the failed attempt 1, 2, 3, ... The draw is from 0 to below 1.
static TimeSpan Wait(int failed, double draw)
{
    var ceiling = ${ceiling};
    return TimeSpan.FromMilliseconds(${wait});
}

static bool IsRetryable(HttpRequestException error) =>
    error.StatusCode is null || ${csharpStatusTest(policy)};`;
}

function csharpStatusTest({ retryableStatusCodes }: Policy): string {
  if (retryableStatusCodes.length === 0) return "false";
  return `(int)error.StatusCode is ${retryableStatusCodes.join(" or ")}`;
}

// Rust code: a policy as a function of the standard library, with the waits of Redrive.

const rustNames = { floor: "f64::floor", min: "f64::min", max: "f64::max", power: "f64::powi" };

const rustSyntax: Syntax = {
  ...functionSyntax(rustNames),
  number: floatLiteral,
  entry: (numbers, position) =>
    `[${numbers.join(", ")}][usize::min(${position} as usize, ${numbers.length}) - 1]`,
  failed: "failed",
  failedNumber: "f64::from(failed)",
};

export function rustCode(policy: Policy): TargetCode {
  const { maxAttempts, totalBudgetMs, attemptTimeoutMs } = policy;
  const text = `use std::time::{Duration, Instant};

const MAX_ATTEMPTS: i32 = ${maxAttempts};
const TOTAL_BUDGET: Duration = Duration::from_millis(${totalBudgetMs});
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(${attemptTimeoutMs});

/// The wait after the failed attempt 1, 2, 3, ... The draw is from 0 to below 1.
${rustWaitFunction(waitFormula(policy, rustSyntax))}

/// Calls with a timeout until the result is \`Ok\`, at most ${formatCount(maxAttempts, "time")} and for at most ${formatDuration(totalBudgetMs)}.
${RUST_RETRY_FUNCTION}`;
  const notes = [
    ...languageNotes(policy, { who: "This code", knowsPrevious: true }),
    statusNote(policy),
    "This code blocks its thread while it waits: in async code, await tokio::time::sleep(wait).",
  ];
  return { language: "rust", text, notes };
}

const RUST_RETRY_FUNCTION = `/// \`random\` returns numbers from 0 to below 1, such as \`rand::random\`.
pub fn retry<T, E>(
    mut call: impl FnMut(Duration) -> Result<T, E>,
    is_retryable: impl Fn(&E) -> bool,
    mut random: impl FnMut() -> f64,
) -> Result<T, E> {
    let start = Instant::now();
    let mut previous = 0.0;
    let mut attempt = 1;
    loop {
        let left = TOTAL_BUDGET.saturating_sub(start.elapsed());
        let error = match call(ATTEMPT_TIMEOUT.min(left)) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if attempt >= MAX_ATTEMPTS || !is_retryable(&error) {
            return Err(error);
        }
        previous = wait_ms(attempt, previous, random());
        let wait = Duration::from_millis(previous as u64);
        if start.elapsed() + wait >= TOTAL_BUDGET {
            return Err(error);
        }
        std::thread::sleep(wait);
        attempt += 1;
    }
}`;

/** The compiler warns of parameters that are not used, unless their names begin with `_`. */
function rustWaitFunction({ ceiling, wait, usesPrevious }: WaitFormula): string {
  const lines = [...(wait.includes("ceiling") ? [`let ceiling: f64 = ${ceiling};`] : []), wait];
  const body = lines.join("\n    ");
  const unless = (isUsed: boolean, name: string) => (isUsed ? name : `_${name}`);
  const failed = unless(/\bfailed\b/u.test(body), "failed");
  const draw = unless(/\bdraw\b/u.test(body), "draw");
  return `fn wait_ms(${failed}: i32, ${unless(usesPrevious, "previous")}: f64, ${draw}: f64) -> f64 {
    ${body}
}`;
}

// Language notes: what the code for another language leaves out, in sentences.

interface Abilities {
  /** Who waits: the name of the library, or "This code". */
  readonly who: string;
  /** It knows the wait before the current one. */
  readonly knowsPrevious: boolean;
}

function languageNotes(policy: Policy, { who, knowsPrevious }: Abilities): readonly string[] {
  const { jitterType, delaysMs, initialDelayMs, throttleDelayMs = 0 } = policy;
  const isReplaced = jitterType === "DECORRELATED" && !knowsPrevious;
  const isThrottleOther = delaysMs === undefined && throttleDelayMs !== initialDelayMs;
  return [
    ...(isReplaced
      ? [`${who} does not know the previous wait: FULL jitter replaces DECORRELATED.`]
      : []),
    ...(isThrottleOther
      ? [
          `After a throttled response, Redrive starts at ${formatDuration(throttleDelayMs)}; this code does not.`,
        ]
      : []),
    ...(policy.respectRetryAfter ? [`${who} ignores Retry-After.`] : []),
    ...(policy.requireIdempotencyKey
      ? ["Send the same idempotency key with every attempt: the policy requires one."]
      : []),
  ];
}

/** What the caller's own predicate for errors must accept. */
function statusNote({ retryableStatusCodes }: Policy): string {
  const statuses =
    retryableStatusCodes.length === 0
      ? "no status"
      : `the statuses ${retryableStatusCodes.join(", ")}`;
  return `Write the predicate for errors yourself: Redrive retries network errors, timeouts and ${statuses}.`;
}

// Wait formula: the wait of a policy after a failed attempt, as expressions of a programming
// language. The formula exists once; a language only says how it writes numbers, functions and
// lists. So the code for every language has the waits of Redrive.

/** How a language writes the parts of the formula. All values are floating-point numbers. */
export interface Syntax {
  number(value: number): string;
  floor(value: string): string;
  /** The smaller one. */
  min(left: string, right: string): string;
  /** The larger one. */
  max(left: string, right: string): string;
  /** A power with a whole exponent, at most `limit`: from there on, the maximum of the wait holds. */
  power(base: string, exponent: string, limit: number): string;
  /** An entry of a list. `position` is its position plus one; the last entry if there are fewer. */
  entry(numbers: readonly string[], position: string): string;
  /** The number of the failed attempt, as an integer and as a floating-point number. */
  readonly failed: string;
  readonly failedNumber: string;
}

interface WaitFormula {
  /** The maximum of the wait, in milliseconds. */
  readonly ceiling: string;
  /** The wait in whole milliseconds. Uses the names `ceiling`, `draw` (from 0 to below 1) and `previous`. */
  readonly wait: string;
  /** The wait depends on a random number. */
  readonly draws: boolean;
  /** The wait depends on the one before it, in milliseconds, which is 0 at first. */
  readonly usesPrevious: boolean;
}

export function waitFormula(policy: Policy, syntax: Syntax): WaitFormula {
  const { jitterType } = policy;
  return {
    ceiling: ceilingOf(policy, syntax),
    wait: pickOf(policy, syntax),
    draws: jitterType !== "NONE",
    usesPrevious: jitterType === "DECORRELATED",
  };
}

function ceilingOf(policy: Policy, syntax: Syntax): string {
  const { number, floor, min, failed, failedNumber } = syntax;
  if (policy.delaysMs !== undefined) return syntax.entry(policy.delaysMs.map(number), failed);
  const { backoff, initialDelayMs, multiplier, maxDelayMs } = policy;
  const first = number(initialDelayMs);
  if (backoff === "FIXED" || initialDelayMs === 0) return first;
  const limit = stepsToMax(policy);
  const growth =
    backoff === "LINEAR" ? failedNumber : syntax.power(number(multiplier), `${failed} - 1`, limit);
  return floor(min(number(maxDelayMs), `${first} * ${growth}`));
}

/** After how many multiplications the maximum is reached; at most 1000, which is the most attempts. */
function stepsToMax({ initialDelayMs = 0, multiplier = 1, maxDelayMs = 0 }: Policy): number {
  let steps = 0;
  for (let ms = initialDelayMs; ms < maxDelayMs && steps < 1000; steps++) ms *= multiplier;
  return steps;
}

function pickOf(policy: Policy, { number, floor, min, max }: Syntax): string {
  const one = number(1);
  const between = (low: string, count: string) => `${low} + ${floor(`draw * (${count})`)}`;
  switch (policy.jitterType) {
    case "NONE":
      return "ceiling";
    case "FULL":
      return floor(`draw * (ceiling + ${one})`);
    case "EQUAL": {
      const half = floor(`ceiling / ${number(2)}`);
      return between(half, `ceiling - ${half} + ${one}`);
    }
    case "PROPORTIONAL": {
      const spread = floor(`ceiling * ${number(policy.jitterRatio)}`);
      return between(`ceiling - ${spread}`, `${number(2)} * ${spread} + ${one}`);
    }
    case "DECORRELATED": {
      const { initialDelayMs = 0, maxDelayMs = 0 } = policy;
      const first = number(initialDelayMs);
      const top = min(number(maxDelayMs), `${max(first, "previous")} * ${number(3)}`);
      return between(first, `${max(first, top)} - ${first} + ${one}`);
    }
  }
}

/** The formula for a library that does not know the wait before: full jitter replaces DECORRELATED. */
export function statelessFormula(policy: Policy, syntax: Syntax): WaitFormula {
  const isStateless = policy.jitterType !== "DECORRELATED";
  return waitFormula(isStateless ? policy : { ...policy, jitterType: "FULL" }, syntax);
}

/** A floating-point number in languages where `1` is an integer. */
function floatLiteral(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

/** `Math.min(a, b)` and so on, as Java and JavaScript write it. */
export function functionSyntax(
  names: Readonly<Record<"floor" | "min" | "max" | "power", string>>,
): Pick<Syntax, "floor" | "min" | "max" | "power"> {
  return {
    floor: (value) => `${names.floor}(${value})`,
    min: (left, right) => `${names.min}(${left}, ${right})`,
    max: (left, right) => `${names.max}(${left}, ${right})`,
    power: (base, exponent) => `${names.power}(${base}, ${exponent})`,
  };
}
