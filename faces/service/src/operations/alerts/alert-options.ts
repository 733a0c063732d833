/** Alert options: where alerts are posted, and when they fire. */
import { checkFields, type FieldProblem, type Fields, numberRule, textRule } from "@redrive/core";

export interface AlertOptions {
  /** Each alert is posted there, by a task of the tenant `default`. */
  readonly url: string;
  /** Dead letters per ended task, above which an alert fires. 0 to 1. Default: 0.01. */
  readonly deadLetterRatio?: number;
  /** The time over which dead letters are counted. 10 seconds to 1 day. Default: 5 minutes. */
  readonly windowMs?: number;
  /** How late the oldest due task may be. 1 second to 1 day. Default: 60 seconds. */
  readonly lateMs?: number;
  /** The address of your copy of the runbook. Default: `docs/runbook.md` of this project. */
  readonly runbookUrl?: string;
}

const DAY_MS = 86_400_000;

const urlRule = textRule(/^https?:\/\/[^\s]{1,2000}$/u, "an http(s) URL");

const FIELDS: Fields & Readonly<Record<keyof AlertOptions, unknown>> = {
  url: urlRule,
  deadLetterRatio: numberRule(0, 1, true),
  windowMs: numberRule(10_000, DAY_MS),
  lateMs: numberRule(1000, DAY_MS),
  runbookUrl: textRule(/^[^\s]{1,2000}$/u, "an address"),
};

/** All problems of the options. */
export function checkAlerts(options: unknown): readonly FieldProblem[] {
  const problems = checkFields(options, FIELDS, "alerts.");
  if (problems.length > 0 || (options as Partial<AlertOptions>).url !== undefined) return problems;
  return [{ field: "alerts.url", value: undefined, message: "alerts.url is required" }];
}

export type ResolvedAlerts = Required<AlertOptions>;

export function resolveAlerts(options: AlertOptions): ResolvedAlerts {
  return {
    deadLetterRatio: 0.01,
    windowMs: 300_000,
    lateMs: 60_000,
    runbookUrl: "docs/runbook.md",
    ...options,
  };
}
