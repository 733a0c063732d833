/** Rust code: a policy as a function of the standard library, with the waits of Redrive. */
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

const names = { floor: "f64::floor", min: "f64::min", max: "f64::max", power: "f64::powi" };

const syntax: Syntax = {
  ...functionSyntax(names),
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
${waitFunction(waitFormula(policy, syntax))}

/// Calls with a timeout until the result is \`Ok\`, at most ${formatCount(maxAttempts, "time")} and for at most ${formatDuration(totalBudgetMs)}.
${RETRY_FUNCTION}`;
  const notes = [
    ...languageNotes(policy, { who: "This code", knowsPrevious: true }),
    statusNote(policy),
    "This code blocks its thread while it waits: in async code, await tokio::time::sleep(wait).",
  ];
  return { language: "rust", text, notes };
}

const RETRY_FUNCTION = `/// \`random\` returns numbers from 0 to below 1, such as \`rand::random\`.
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
function waitFunction({ ceiling, wait, usesPrevious }: WaitFormula): string {
  const lines = [...(wait.includes("ceiling") ? [`let ceiling: f64 = ${ceiling};`] : []), wait];
  const body = lines.join("\n    ");
  const unless = (isUsed: boolean, name: string) => (isUsed ? name : `_${name}`);
  const failed = unless(/\bfailed\b/u.test(body), "failed");
  const draw = unless(/\bdraw\b/u.test(body), "draw");
  return `fn wait_ms(${failed}: i32, ${unless(usesPrevious, "previous")}: f64, ${draw}: f64) -> f64 {
    ${body}
}`;
}
