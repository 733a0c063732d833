/** Java code: a policy for Resilience4j, with the waits of Redrive. */
import { formatDuration, type Policy } from "@redrive/core";
import { languageNotes } from "./language-notes.ts";
import type { TargetCode } from "./target-code.ts";
import { floatLiteral, functionSyntax, type Syntax, statelessFormula } from "./wait-formula.ts";

const names = { floor: "Math.floor", min: "Math.min", max: "Math.max", power: "Math.pow" };

const syntax: Syntax = {
  ...functionSyntax(names),
  number: floatLiteral,
  entry: (numbers, position) =>
    `new double[] {${numbers.join(", ")}}[Math.min(${position}, ${numbers.length}) - 1]`,
  failed: "failed",
  failedNumber: "failed",
};

export function javaCode(policy: Policy): TargetCode {
  const { maxAttempts, attemptTimeoutMs, totalBudgetMs, retryableStatusCodes } = policy;
  const { ceiling, wait } = statelessFormula(policy, syntax);
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
