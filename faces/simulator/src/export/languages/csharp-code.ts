/** C# code: a policy for Polly 8, with the waits of Redrive. */
import { formatDuration, type Policy } from "@redrive/core";
import { languageNotes } from "./language-notes.ts";
import type { TargetCode } from "./target-code.ts";
import { floatLiteral, functionSyntax, type Syntax, statelessFormula } from "./wait-formula.ts";

const names = { floor: "Math.Floor", min: "Math.Min", max: "Math.Max", power: "Math.Pow" };

const syntax: Syntax = {
  ...functionSyntax(names),
  number: floatLiteral,
  entry: (numbers, position) =>
    `new[] { ${numbers.join(", ")} }[Math.Min(${position}, ${numbers.length}) - 1]`,
  failed: "failed",
  failedNumber: "failed",
};

/** Polly accepts timeouts up to one day. */
const MAX_TIMEOUT_MS = 86_400_000;

export function csharpCode(policy: Policy): TargetCode {
  const { maxAttempts, attemptTimeoutMs, totalBudgetMs } = policy;
  const hasTotal = totalBudgetMs >= 10 && totalBudgetMs <= MAX_TIMEOUT_MS;
  const lines = [
    "var pipeline = new ResiliencePipelineBuilder()",
    ...(hasTotal ? [`    .AddTimeout(TimeSpan.FromMilliseconds(${totalBudgetMs}))`] : []),
    ...(maxAttempts > 1 ? [retryStrategy(maxAttempts)] : []),
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
${maxAttempts > 1 ? helpers(policy) : ""}`;
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
function retryStrategy(maxAttempts: number): string {
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

function helpers(policy: Policy): string {
  const { ceiling, wait } = statelessFormula(policy, syntax);
  return `
// The wait after the failed attempt 1, 2, 3, ... The draw is from 0 to below 1.
static TimeSpan Wait(int failed, double draw)
{
    var ceiling = ${ceiling};
    return TimeSpan.FromMilliseconds(${wait});
}

static bool IsRetryable(HttpRequestException error) =>
    error.StatusCode is null || ${statusTest(policy)};`;
}

function statusTest({ retryableStatusCodes }: Policy): string {
  if (retryableStatusCodes.length === 0) return "false";
  return `(int)error.StatusCode is ${retryableStatusCodes.join(" or ")}`;
}
