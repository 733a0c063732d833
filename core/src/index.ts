/**
 * The public API of `@redrive/core`, in reading order: the policy, the decision, the destination with
 * its guards, then time, errors and text. `@redrive/core/interop` has the configurations of other
 * systems. Only `Admission` changes guards, so this list has no functions that change a single
 * guard, except those of the standalone limiters.
 */

// What a response asks for.

export {
  type Hint,
  headerHint,
  parsePushback,
  parseRetryAfter,
  type ReadHeader,
  retryHintOf,
} from "./decide/hints.ts";

// The policy document, and the decision about one attempt.

export { classifyError } from "./decide/classify.ts";
export {
  type CompiledPolicy,
  compiledPolicyOf,
  compilePolicy,
  STOP_ATTEMPTS,
  STOP_BUDGET,
} from "./decide/compiled-policy.ts";
export {
  type AdmitDecision,
  admit,
  type CallHistory,
  type Decision,
  type DelaySource,
  decide,
  decideUnguarded,
  type EndStatus,
  type EntryGate,
  type Gates,
  type HoldDecision,
  type HoldReason,
  OPEN_ENTRY,
  OPEN_GATES,
  type RetryDecision,
  remainingMs,
  type StopDecision,
} from "./decide/decide.ts";
export {
  callReasonTexts,
  type ExplainedDecision,
  explain,
  explainReason,
  holdDescriptions,
} from "./decide/explain.ts";
export {
  ABORTED,
  classifyOutcome,
  FAULT,
  grpcOutcome,
  isAnswer,
  type Outcome,
  recordedOutcome,
  SUCCESS,
  statusOutcome,
  statusText,
  timeoutOutcome,
  type Verdict,
} from "./decide/outcome.ts";
export {
  type BackoffKind,
  checkPolicy,
  ERROR_CLASSES,
  type ErrorClass,
  GRPC_CODES,
  type GrpcCode,
  type JitterType,
  POLICY_FIELDS,
  type Policy,
  type PolicyDocument,
  resolvePolicy,
  singleAttempt,
} from "./decide/policy.ts";
export { policySchema } from "./decide/policy-schema.ts";
export { type PresetName, policyDocumentOf, preset, presets } from "./decide/presets.ts";
export {
  assertKey,
  type CallRequest,
  isRepeatable,
  type KeyHeader,
  mayRunTwice,
  type Patience,
  parseKeyHeader,
} from "./decide/repeatable.ts";

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
  readSavedState,
  textRule,
  versionRule,
} from "./documents/document.ts";
export {
  type AttemptRecord,
  assertRange,
  causedError,
  type ErrorCode,
  invalidArgument,
  messageOf,
  quote,
  RedriveError,
  type StopReason,
} from "./documents/errors.ts";
export {
  formatCount,
  formatDuration,
  formatInteger,
  formatNumber,
  formatPercent,
  formatSeconds,
  formatSignificant,
  parseDuration,
} from "./documents/format.ts";
export { nearestName } from "./documents/nearest-name.ts";
export {
  BAD_SIGNING_SECRET,
  readWebhook,
  SIGNING_SECRET_FORMAT,
  signingSecretBase64,
  type UnverifiedWebhook,
  type WebhookRefusal,
  type WebhookVerdict,
} from "./documents/webhook.ts";

// The destination document.

export {
  checkDestination,
  type Destination,
  type DestinationDocument,
  guardOptionsOf,
  type RetryBudgetDocument,
  resolveDestination,
} from "./guards/destination.ts";

// The guards of a destination, and the admission of attempts.

export {
  Admission,
  type AdmissionRequest,
  admissionRequestOf,
  concurrencyOutcomeOf,
  HEDGE_REQUEST,
  type Permit,
  type Refusal,
  rampUp,
  recheckPermit,
  replaceGuards,
  retryGates,
  skipGateRamp,
} from "./guards/admission.ts";
export {
  adoptBreaker,
  type Breaker,
  type BreakerOptions,
  type BreakerState,
  breakerState,
  type CallCounts,
  callCounts,
  createBreaker,
  restoreBreaker,
  type SavedBreaker,
  saveBreaker,
} from "./guards/breaker.ts";
export {
  type ConcurrencyOptions,
  concurrencyLimit,
  createConcurrency,
  type LimitAlgorithm,
} from "./guards/concurrency.ts";
export {
  canUseToken,
  FleetAdmission,
  type FleetShare,
  NO_SHARE,
  PermitBatch,
  type ReservedTokens,
  type SlotDemand,
  wantedSlots,
  wantedTokens,
} from "./guards/fleet-admission.ts";
export {
  createGuards,
  type GuardOptions,
  type Guards,
  restoreGuards,
  type SavedGuards,
  saveGuards,
} from "./guards/guards.ts";
export { type HedgeOptions, hedgeAfterMs, hedgeQuantile } from "./guards/hedge.ts";
export {
  type Latency,
  latencyCalls,
  medianMs,
  quantileMs,
  recordLatency,
} from "./guards/latency.ts";
export {
  AttemptQueue,
  type QueuedAttempt,
  retryAfterSeconds,
  ServerPace,
} from "./guards/overload.ts";
export {
  adaptiveRateReadyAt,
  createRate,
  type Rate,
  type RateOptions,
  rateReadyAt,
  takeRate,
} from "./guards/rate.ts";
export {
  type BudgetPlace,
  BudgetShare,
  budgetAllows,
  createRetryBudget,
  fairRoom,
  type RetryBudget,
  type RetryBudgetOptions,
  reservedRetries,
  restoreRetryBudget,
  SharedBudget,
  saveRetryBudget,
  shareBudget,
} from "./guards/retry-budget.ts";
export {
  createThrottle,
  enterThrottle,
  recordThrottleResponse,
  rejectShare,
  type Throttle,
} from "./guards/throttle.ts";
export {
  type WaitingCallHandler,
  WaitingCalls,
  type WaitingEntry,
} from "./guards/waiting-calls.ts";

// Time and randomness.

export type { AbortSignalLike, Cancel, Clock, Random, TimeSource } from "./time/clock.ts";
export { systemBytes, systemClock, systemId, systemRandom, systemTime } from "./time/system.ts";
export { seededRandom, type VirtualClock, virtualClock } from "./time/virtual.ts";
