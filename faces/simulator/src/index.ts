/**
 * The public API of `@redrive/simulator`: shows what a retry policy does to a failing dependency
 * before it is used in production. Runs in Node and in a web worker, and depends only on core.
 */
export { type Advice, advise, type UsualDifference } from "./advise/advise.ts";
export {
  type Answers,
  type Choice,
  type ClientClass,
  type Question,
  type QuestionId,
  questions,
} from "./advise/questions.ts";
export type { OnProgress } from "./events/progress.ts";
export type {
  Basis,
  Lab,
  LabOptions,
  LabReport,
  LabRow,
  Tolerance,
} from "./labs/lab.ts";
export { labs, runLab } from "./labs/labs.ts";
export { fixFinding } from "./lint/fix-finding.ts";
export { lint, lintRules, passesLint } from "./lint/lint.ts";
export type { Finding, Severity } from "./lint/rule.ts";
export {
  LINT_CLIENTS,
  type LintContext,
  type LintSubject,
  type LintTier,
  type LintTiers,
} from "./lint/subject.ts";
export type { PeakReport, Report, Series } from "./measure/report.ts";
export type { DurationDocument } from "./random/durations.ts";
export {
  type Replay,
  type ReplayOptions,
  type ReplayResult,
  type ReplaySeries,
  replay,
} from "./replay/replay.ts";
export type { LoggedAttempt } from "./replay/replay-log.ts";
export { checkScenario } from "./scenario/check-scenario.ts";
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
export { tierLoad } from "./schedule/tier-load.ts";
export { type SimulateOptions, simulate, traceHash } from "./simulate/simulate.ts";
export {
  type CallOptions,
  type ScriptedOutcome,
  type SimulatedCall,
  simulateCall,
} from "./simulate/simulate-call.ts";
export {
  type CallsOptions,
  type SimulatedAttempt,
  type SimulatedCalls,
  type SimulatedEnd,
  simulateCalls,
} from "./simulate/simulate-calls.ts";
