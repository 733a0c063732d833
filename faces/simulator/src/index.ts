/**
 * The public surface of `@redrive/simulator`: see what a policy does to a dependency that fails,
 * before production does. Runs in Node and in a browser's worker, on core alone.
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
export type { SpanDocument } from "./chance/spans.ts";
export { COVERAGE_SAMPLES, type CoverageOptions, coverage } from "./coverage.ts";
export type { OnProgress } from "./engine/progress.ts";
export { type Herd, type HerdOptions, herd } from "./herd.ts";
export type {
  Basis,
  Lab,
  LabOptions,
  LabReport,
  LabRow,
  Tolerance,
} from "./labs/lab.ts";
export { labs, runLab } from "./labs/labs.ts";
export { lint, lintRules, passesLint } from "./lint/lint.ts";
export { mend } from "./lint/mend.ts";
export type { Finding, Severity } from "./lint/rule.ts";
export {
  LINT_CLIENTS,
  type LintContext,
  type LintSubject,
  type LintTier,
  type LintTiers,
} from "./lint/subject.ts";
export type { PeakReport, Report, Series } from "./measure/report.ts";
export {
  type Replay,
  type ReplayOptions,
  type ReplaySeries,
  type ReplaySide,
  replay,
} from "./replay.ts";
export type { LoggedAttempt } from "./replay-log.ts";
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
} from "./scenario.ts";
export { checkScenario } from "./scenario-fields.ts";
export { scenarios } from "./scenarios.ts";
export { type Schedule, type ScheduledWait, type ScheduleOptions, schedule } from "./schedule.ts";
export { type SimulateOptions, simulate, traceHash } from "./simulate.ts";
export {
  type CallOptions,
  type ScriptedOutcome,
  type SimulatedCall,
  simulateCall,
} from "./simulate-call.ts";
export {
  type CallsOptions,
  type SimulatedAttempt,
  type SimulatedCalls,
  type SimulatedEnd,
  simulateCalls,
} from "./simulate-calls.ts";
export {
  assertStrategyCount,
  MAX_STRATEGIES,
  strategyDocument,
  strategyNames,
} from "./strategies.ts";
export { tierLoad } from "./tier-load.ts";
