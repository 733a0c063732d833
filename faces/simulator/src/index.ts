/**
 * The public API of `@redrive/simulator`: shows what a retry policy does to a failing dependency
 * before it is used in production. Runs in Node and in a web worker, and depends only on core.
 */
export {
  type Advice,
  type Answers,
  advise,
  type Choice,
  type ClientClass,
  type Question,
  type QuestionId,
  questions,
  type UsualDifference,
} from "./advise.ts";
export type { DurationDocument } from "./engine/durations.ts";
export type { OnProgress } from "./engine/run.ts";
export type {
  Basis,
  Lab,
  LabOptions,
  LabReport,
  LabRow,
  Tolerance,
} from "./labs/lab.ts";
export { labs, runLab } from "./labs/labs.ts";
export { fixFinding, lint, lintRules, passesLint, tierLoad } from "./lint/lint.ts";
export type { Finding, Severity } from "./lint/rule.ts";
export {
  LINT_CLIENTS,
  type LintContext,
  type LintSubject,
  type LintTier,
  type LintTiers,
} from "./lint/rule.ts";
export type { LoggedAttempt } from "./replay.ts";
export {
  type Replay,
  type ReplayOptions,
  type ReplayResult,
  type ReplaySeries,
  replay,
} from "./replay.ts";
export type {
  CallsDocument,
  ClosedClients,
  ContentionDocument,
  OpenClients,
  PhaseDocument,
  PhaseKind,
  QueueDocument,
  ScenarioDocument,
  ServerDocument,
  TierDocument,
} from "./scenario/scenario-document.ts";
export { checkScenario } from "./scenario/scenario-document.ts";
export { scenarios } from "./scenario/scenarios.ts";
export { COVERAGE_SAMPLES, type CoverageOptions, coverage } from "./schedule/coverage.ts";
export { type Herd, type HerdOptions, herd } from "./schedule/herd.ts";
export {
  type Schedule,
  type ScheduledWait,
  type ScheduleOptions,
  schedule,
} from "./schedule/schedule.ts";
export {
  assertStrategyCount,
  MAX_STRATEGIES,
  strategyDocument,
  strategyNames,
} from "./schedule/strategies.ts";
export type { PeakReport, Report, Series } from "./worlds/report.ts";
export {
  type SimulateOptions,
  type Survival,
  type SurvivalOptions,
  simulate,
  survival,
  traceHash,
} from "./worlds/simulate.ts";
export {
  type CallOptions,
  type CallsOptions,
  type ScriptedOutcome,
  type SimulatedAttempt,
  type SimulatedCall,
  type SimulatedCalls,
  type SimulatedEnd,
  simulateCall,
  simulateCalls,
} from "./worlds/simulate-calls.ts";
