/**
 * The public API of `@redrive/core`, in reading order: the policy, the decision, the destination with
 * its guards, then time, errors and text. `@redrive/core/interop` has the configurations of other
 * systems. Only `Admission` changes guards, so this list has no functions that change a single
 * guard, except those of the standalone limiters.
 */

// The decision about one attempt.
export { classifyError } from "./decide/classify.ts";
export {
  type AdmitDecision,
  admit,
  type CallHistory,
  decide,
  decideUnguarded,
  type EntryGate,
  type Gates,
  OPEN_ENTRY,
  OPEN_GATES,
  remainingMs,
} from "./decide/decide.ts";
export type {
  Decision,
  DelaySource,
  EndStatus,
  HoldDecision,
  HoldReason,
  RetryDecision,
  StopDecision,
} from "./decide/decision.ts";
export {
  callReasonTexts,
  type ExplainedDecision,
  explain,
  explainReason,
  holdDescriptions,
} from "./decide/explain.ts";
export { type KeyHeader, parseKeyHeader } from "./decide/idempotency-key.ts";
export {
  ABORTED,
  classifyOutcome,
  FAULT,
  grpcOutcome,
  type Outcome,
  recordedOutcome,
  SUCCESS,
  statusOutcome,
  type Verdict,
} from "./decide/outcome.ts";
export { parsePushback, parseRetryAfter } from "./decide/parse-retry-after.ts";
export { assertKey, type CallRequest, isRepeatable, type Patience } from "./decide/repeatable.ts";
export { type Hint, retryHintOf } from "./decide/thrown-hint.ts";
// Errors, documents and text.
export {
  booleanRule,
  checkFields,
  choiceRule,
  DocumentError,
  type FieldProblem,
  type Fields,
  fieldProblem,
  isObject,
  listRule,
  numberRule,
  type Rule,
  textRule,
} from "./documents/document.ts";
export { nearestName } from "./documents/nearest-name.ts";
export { readSavedState, versionRule } from "./documents/saved-state.ts";
export { assertRange, invalidArgument, quote } from "./errors/assert.ts";
export {
  type AttemptRecord,
  causedError,
  type ErrorCode,
  messageOf,
  RedriveError,
} from "./errors/errors.ts";
export type { StopReason } from "./errors/stop-reason.ts";
// Single guards: their documents, their state for reports, and standalone limiters.
export { adaptiveRateReadyAt } from "./guards/adaptive-rate.ts";
// The destination document and the admission of attempts.
export { Admission } from "./guards/admission/admission.ts";
export {
  rampUp,
  recheckPermit,
  replaceGuards,
  skipGateRamp,
} from "./guards/admission/admission-changes.ts";
export {
  type AdmissionRequest,
  admissionRequestOf,
  HEDGE_REQUEST,
  type Permit,
  type Refusal,
} from "./guards/admission/permit.ts";
export { retryGates } from "./guards/admission/retry-gates.ts";
export {
  type WaitingCallHandler,
  WaitingCalls,
  type WaitingEntry,
} from "./guards/admission/waiting-calls.ts";
export {
  adoptBreaker,
  type Breaker,
  type BreakerOptions,
  type BreakerState,
  breakerState,
  type CallCounts,
  callCounts,
  createBreaker,
} from "./guards/breaker.ts";
export {
  type ConcurrencyOptions,
  concurrencyLimit,
  createConcurrency,
} from "./guards/concurrency.ts";
export {
  checkDestination,
  type Destination,
  type DestinationDocument,
  guardOptionsOf,
  type RetryBudgetDocument,
  resolveDestination,
} from "./guards/destination.ts";
export { fairRoom } from "./guards/fair-share.ts";
// What nodes that share the limits of a destination need.
export {
  FleetAdmission,
  type FleetShare,
  NO_SHARE,
  type ReservedTokens,
} from "./guards/fleet/fleet-admission.ts";
export { type SlotDemand, wantedSlots, wantedTokens } from "./guards/fleet/fleet-demand.ts";
export { type BudgetPlace, reservedRetries, shareBudget } from "./guards/fleet-budget.ts";
export {
  createGuards,
  type GuardOptions,
  type Guards,
  restoreGuards,
  type SavedGuards,
  saveGuards,
} from "./guards/guards.ts";
export { type HedgeOptions, hedgeAfterMs, hedgeQuantile } from "./guards/hedge.ts";
export { type Latency, latencyCalls, quantileMs, recordLatency } from "./guards/latency.ts";
// What a server needs that refuses requests when it is overloaded.
export { AttemptQueue, type QueuedAttempt } from "./guards/overload/attempt-queue.ts";
export { retryAfterSeconds } from "./guards/overload/return-times.ts";
export { ServerPace } from "./guards/overload/server-pace.ts";
export { createRate, type Rate, type RateOptions, rateReadyAt, takeRate } from "./guards/rate.ts";
export {
  budgetAllows,
  createRetryBudget,
  type RetryBudget,
  type RetryBudgetOptions,
  restoreRetryBudget,
  saveRetryBudget,
} from "./guards/retry-budget.ts";
export { restoreBreaker, type SavedBreaker, saveBreaker } from "./guards/saved-breaker.ts";
export { BudgetShare, SharedBudget } from "./guards/shared-budget.ts";
export {
  createThrottle,
  enterThrottle,
  recordThrottleResponse,
  rejectShare,
  type Throttle,
} from "./guards/throttle.ts";
// The policy document.
export {
  type CompiledPolicy,
  compiledPolicyOf,
  compilePolicy,
  STOP_ATTEMPTS,
  STOP_BUDGET,
} from "./policy/compiled-policy.ts";
export {
  ERROR_CLASSES,
  type ErrorClass,
  GRPC_CODES,
  type GrpcCode,
} from "./policy/error-classes.ts";
export {
  type BackoffKind,
  checkPolicy,
  type JitterType,
  POLICY_FIELDS,
  type Policy,
  type PolicyDocument,
  resolvePolicy,
  singleAttempt,
} from "./policy/policy.ts";
export { policySchema } from "./policy/policy-schema.ts";
export { type PresetName, policyDocumentOf } from "./policy/preset-policies.ts";
export { preset, presets } from "./policy/presets.ts";
export {
  formatCount,
  formatDuration,
  formatInteger,
  formatNumber,
  formatPercent,
  formatSignificant,
} from "./text/format.ts";
export { statusText } from "./text/status-text.ts";
// Time and randomness.
export type { AbortSignalLike } from "./time/abort.ts";
export type { Cancel, Clock, TimeSource } from "./time/clock.ts";
export { formatSeconds, parseDuration } from "./time/duration.ts";
export type { Random } from "./time/random.ts";
export { systemBytes, systemClock, systemId, systemRandom, systemTime } from "./time/system.ts";
export { seededRandom, type VirtualClock, virtualClock } from "./time/virtual.ts";
