/** Field names: replaces the names of policy fields in an error message by the labels of the controls. */

const LABELS: Readonly<Record<string, string>> = {
  totalBudgetMs: "the deadline",
  initialDelayMs: "the base",
  maxDelayMs: "the max",
  maxAttempts: "the attempts",
  multiplier: "the multiplier",
  jitterRatio: "the jitter",
  delaysMs: "the list of waits",
};

/** For example "The deadline must be at least the first wait and call (60000 + 1 ms), got 30000 ms". */
export function labeledProblem(message: string): string {
  const isDuration = /^\w+Ms\b/u.test(message);
  const named = message.replace(/\b[a-z]+[A-Za-z]*\b/gu, (name) => LABELS[name] ?? name);
  const text = isDuration ? named.replace(/(\d)(\)|$)/gu, "$1 ms$2") : named;
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
