/**
 * The public surface of `@redrive/core`: every name that a face, or anyone else, may rely on.
 */
export type { AbortSignalLike } from "./abort.ts";
export {
  ADAPTIVE_RATE_DEFAULTS,
  type AdaptiveRate,
  type AdaptiveRateOptions,
  adaptiveRateReadyAt,
  createAdaptiveRate,
  noteAnswer,
  takeAdaptiveRate,
} from "./adaptive-rate.ts";
export {
  Admission,
  type Applicant,
  type AttemptKind,
  type Permit,
  type Refusal,
  THROTTLE_REST_MS,
} from "./admission.ts";
export { rampUp, recheckPermit, replaceGuards, skipGateRamp } from "./admission-changes.ts";
export { retryGates } from "./admission-gates.ts";
export { assertRange, invalidArgument, quote } from "./assert.ts";
export {
  type AwsRetryMode,
  type AwsTarget,
  exportAws,
  importAws,
} from "./aws-config.ts";
export { type Backoff, backoffOf } from "./backoff.ts";
export {
  adoptBreaker,
  BREAKER_DEFAULTS,
  type Breaker,
  type BreakerColumns,
  type BreakerOptions,
  type BreakerOutcome,
  type BreakerState,
  breakerReadyAt,
  breakerState,
  countSuccesses,
  createBreaker,
  enterBreaker,
  leaveBreaker,
  openUntil,
} from "./breaker.ts";
export { type CatalogueEntry, catalogue, catalogueEntry } from "./catalogue.ts";
export { classifyError } from "./classify.ts";
export type { Cancel, Clock, TimeSource } from "./clock.ts";
export {
  CONCURRENCY_DEFAULTS,
  type Concurrency,
  type ConcurrencyOptions,
  type ConcurrencyOutcome,
  concurrencyLimit,
  createConcurrency,
  enterConcurrency,
  hasSlot,
  leaveConcurrency,
  restartRamp,
} from "./concurrency.ts";
export {
  type AdmitDecision,
  admit,
  type CallHistory,
  decide,
  decideAlone,
  type EntryGate,
  type Gates,
  type GoDecision,
  OPEN_ENTRY,
  OPEN_GATES,
  remainingMs,
} from "./decide.ts";
export type {
  Decision,
  DelaySource,
  EndStatus,
  HoldDecision,
  HoldReason,
  RetryDecision,
  ServiceReason,
  StopDecision,
  StopReason,
} from "./decision.ts";
export {
  checkDestination,
  type Destination,
  type DestinationDefaults,
  type DestinationDocument,
  type DestinationRate,
  guardOptionsOf,
  type RateDocument,
  type RetryBudgetDocument,
  resolveDestination,
} from "./destination.ts";
export {
  booleanRule,
  checkFields,
  choiceRule,
  DocumentError,
  type Fields,
  isObject,
  listRule,
  nearest,
  numberRule,
  type Problem,
  problem,
  type Rule,
  textRule,
} from "./document.ts";
export { formatSeconds, parseDuration } from "./duration.ts";
export { importEnvoy } from "./envoy-config.ts";
export { type EnvoyRoute, exportEnvoy } from "./envoy-export.ts";
export {
  type AttemptRecord,
  causedError,
  type ErrorCode,
  RedriveError,
  type RedriveErrorDetails,
} from "./errors.ts";
export { callReasons, type Explained, explain, explainReason, holdWords } from "./explain.ts";
export { plain, span, whole } from "./figures.ts";
export type { DestinationParts, Imported } from "./foreign.ts";
export { type GrpcTarget, importGrpc } from "./grpc-config.ts";
export { exportGrpc, type GrpcServiceConfig } from "./grpc-export.ts";
export {
  createGuards,
  type GuardOptions,
  type Guards,
  restoreGuards,
  type SavedGuards,
  saveGuards,
} from "./guards.ts";
export { healthOf, isAccepted, loadOf } from "./health.ts";
export {
  HEDGE_DEFAULTS,
  type HedgeAfter,
  type HedgeOptions,
  hedgeAfterMs,
  hedgeQuantile,
} from "./hedge.ts";
export { parseHttpDate } from "./http-date.ts";
export { type Jitter, jitterOf, pick } from "./jitter.ts";
export { compile, type Kernel, kernelOf, STOP_ATTEMPTS, STOP_BUDGET } from "./kernel.ts";
export {
  createLatency,
  type Latency,
  latencyCalls,
  medianMs,
  quantileMs,
  recordLatency,
} from "./latency.ts";
export {
  ERROR_CLASSES,
  type ErrorClass,
  GRPC_CODES,
  type GrpcCode,
  grpcOutcome,
  judge,
  type Outcome,
  SUCCESS,
  statusOutcome,
  type Verdict,
} from "./outcome.ts";
export { applicantOf, HEDGE_APPLICANT } from "./permit.ts";
export {
  type BackoffKind,
  type CurvePolicy,
  checkPolicy,
  type JitterType,
  type ListPolicy,
  POLICY_FIELDS,
  type Policy,
  type PolicyDocument,
  resolve,
  singleAttempt,
} from "./policy.ts";
export { policySchema } from "./policy-schema.ts";
export { type PresetName, policyDocumentOf } from "./preset-policies.ts";
export { preset, presets } from "./presets.ts";
export type { Random } from "./random.ts";
export {
  createRate,
  type Rate,
  type RateOptions,
  rateReadyAt,
  returnRate,
  takeRate,
} from "./rate.ts";
export {
  assertKey,
  type CallRequest,
  isRepeatable,
  mayHaveTakenEffect,
  type Patience,
} from "./repeatable.ts";
export { parsePushback, parseRetryAfter } from "./retry-after.ts";
export { GATE_DEFAULTS, type GateOptions } from "./retry-after-gate.ts";
export {
  budgetAllows,
  budgetReadyAt,
  budgetRefillAt,
  countFirst,
  createRetryBudget,
  giveBack,
  noteFailure,
  noteSuccess,
  type RetryBudget,
  type RetryBudgetOptions,
  restoreRetryBudget,
  saveRetryBudget,
  TRIAL_EVERY_MS,
  takeRetry,
} from "./retry-budget.ts";
export type { JsonSchema } from "./rule-schema.ts";
export { readSaved, versionRule } from "./saved.ts";
export { restoreBreaker, type SavedBreaker, saveBreaker } from "./saved-breaker.ts";
export { systemBytes, systemClock, systemId, systemRandom, systemTime } from "./system.ts";
export {
  createThrottle,
  enterThrottle,
  recordAnswer,
  rejectShare,
  THROTTLE_DEFAULTS,
  type Throttle,
  type ThrottleOptions,
} from "./throttle.ts";
export { type Hint, thrownHint } from "./thrown-hint.ts";
export { seededRandom, type VirtualClock, virtualClock } from "./virtual.ts";
export { WaitingCalls, type WaitingEntry, type WaitingHost } from "./waiting-calls.ts";
