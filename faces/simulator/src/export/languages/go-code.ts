/** Go code: a policy as a function of the standard library, with the waits of Redrive. */
import { formatCount, formatDuration, type Policy } from "@redrive/core";
import { languageNotes, statusNote } from "./language-notes.ts";
import type { TargetCode } from "./target-code.ts";
import {
  floatLiteral,
  functionSyntax,
  type Syntax,
  type WaitFormula,
  waitFormula,
} from "./wait-formula.ts";

const names = { floor: "math.Floor", min: "math.Min", max: "math.Max", power: "math.Pow" };

const syntax: Syntax = {
  ...functionSyntax(names),
  power: (base, exponent) => `math.Pow(${base}, float64(${exponent}))`,
  number: floatLiteral,
  entry: (numbers, position) =>
    `[]float64{${numbers.join(", ")}}[int(math.Min(float64(${position}), ${numbers.length}))-1]`,
  failed: "failed",
  failedNumber: "float64(failed)",
};

export function goCode(policy: Policy): TargetCode {
  const formula = waitFormula(policy, syntax);
  const code = `${waitFunction(formula)}\n\n${retryFunction(policy, formula)}`;
  const text = `package retries\n\n${importsOf(code)}\n\n${code}`;
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
function waitFunction({ ceiling, wait, usesPrevious }: WaitFormula): string {
  const first = usesPrevious ? "" : `\tceiling := ${ceiling}\n`;
  return `// waitMs is the wait after the failed attempt 1, 2, 3, ... The draw is from 0 to below 1.
func waitMs(failed int, previous, draw float64) float64 {
${first}\treturn ${wait}
}`;
}

function retryFunction(policy: Policy, { draws }: WaitFormula): string {
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

function importsOf(code: string): string {
  const used = ["context", "math", "math/rand", "time"].filter((path) => {
    const name = path.slice(path.lastIndexOf("/") + 1);
    return new RegExp(`\\b${name}\\.`, "u").test(code);
  });
  return `import (\n${used.map((path) => `\t"${path}"\n`).join("")})`;
}
