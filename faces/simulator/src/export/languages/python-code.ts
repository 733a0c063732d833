/** Python code: a policy for tenacity, with the waits of Redrive. */
import type { Policy } from "@redrive/core";
import { languageNotes } from "./language-notes.ts";
import type { TargetCode } from "./target-code.ts";
import { functionSyntax, type Syntax, statelessFormula } from "./wait-formula.ts";

const names = { floor: "math.floor", min: "min", max: "max", power: "pow" };

const syntax: Syntax = {
  ...functionSyntax(names),
  // Python raises an error where other languages return infinity.
  power: (base, exponent, limit) => `${base} ** min(${exponent}, ${limit})`,
  number: String,
  entry: (numbers, position) => `[${numbers.join(", ")}][min(${position}, ${numbers.length}) - 1]`,
  failed: "failed",
  failedNumber: "failed",
};

export function pythonCode(policy: Policy): TargetCode {
  const { maxAttempts, totalBudgetMs, attemptTimeoutMs, retryableStatusCodes } = policy;
  const { ceiling, wait } = statelessFormula(policy, syntax);
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
