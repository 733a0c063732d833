/**
 * Consume: creates a consumer from a handler and its options, and checks the options.
 */
import {
  booleanRule,
  type Clock,
  checkFields,
  DocumentError,
  type FieldProblem,
  type Fields,
  invalidArgument,
  numberRule,
  type PolicyDocument,
  type PresetName,
  type Random,
  type Rule,
  systemClock,
  systemRandom,
  textRule,
} from "@redrive/core";
import type { Classify } from "../call/options.ts";
import { destination as createDestination, type Destination } from "../destination/destination.ts";
import { type IdempotencyStore, MAX_RETENTION_MS } from "../idempotency/idempotency-store.ts";
import { Consumer, Duplicates } from "./consumer.ts";
import type { PauseOptions, ResolvedPauseOptions } from "./intake.ts";
import { type ConsumeEvent, describeError, type MessageHandler } from "./message.ts";

export interface ConsumeOptions {
  /** Names the consumer in events, and separates its ids from those of others in a store. Default: `messages`. */
  readonly name?: string | undefined;
  /** A policy document, or a preset's name. `maxAttempts` counts receives. Default: `background`. */
  readonly policy?: PolicyDocument | PresetName | undefined;
  /** What the handler calls: its guards and its policy apply. Default: one with this policy and no guards. */
  readonly destination?: Destination | undefined;
  /** Where the ids of handled messages are kept, to skip duplicates. Default: duplicates are handled. */
  readonly store?: IdempotencyStore | undefined;
  /** How long the id of a handled message is kept. 1 min to 45 days. Default: 24 h. */
  readonly retentionMs?: number | undefined;
  /** Handlers that run at once. 1 to 10,000. Default: 10. */
  readonly concurrency?: number | undefined;
  /** No message comes back sooner. 1 ms to 1 h. Default: 100. */
  readonly minDelayMs?: number | undefined;
  /** How long a message waits in this process while the guards hold all of them; then it is deferred. 0 to 10 min. Default: 10,000. */
  readonly maxHoldMs?: number | undefined;
  /** How long a deferred message waits: a random time from half of this to one and a half times it. 2 ms to 1 h. Default: 5,000. */
  readonly deferMs?: number | undefined;
  /** Each deferral in a row is twice as long as the one before, up to this. 2 ms to 24 h. Default: 1 h. */
  readonly maxDeferMs?: number | undefined;
  /** A message that was delivered this often in a row without a result is `poison`. 1 to 100. Default: 3. */
  readonly maxLost?: number | undefined;
  /** When the consumer pauses because most messages end with errors of the program. False: never. */
  readonly pause?: PauseOptions | false | undefined;
  /** False: a message whose attempt may have taken effect is not handled again. Default: true. */
  readonly idempotent?: boolean | undefined;
  /** Overrides the classification of what the handler throws or returns. */
  readonly classify?: Classify<unknown> | undefined;
  /** The text that a message's history has for an error. Default: its name, code and message. */
  readonly describeError?: ((error: unknown) => string) | undefined;
  readonly onEvent?: ((event: ConsumeEvent) => void) | undefined;
  /** Default: the destination's, else the system's. */
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

const anything: Rule = () => undefined;
const functionRule: Rule = (value) => (typeof value === "function" ? undefined : "a function");
const destinationRule: Rule = (value) =>
  typeof (value as Destination | null)?.run === "function" ? undefined : "a destination";

const storeRule: Rule = (value) =>
  typeof (value as IdempotencyStore | null)?.claim === "function" ? undefined : "a store";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** A claim lasts longer than its handler by this time, for the store's own latency. */
const LEASE_MARGIN_MS = 10_000;

const FIELDS: Fields & Readonly<Record<keyof ConsumeOptions, unknown>> = {
  name: textRule(/^[\x21-\x7e]{1,100}$/, "1 to 100 visible ASCII characters"),
  policy: anything,
  destination: destinationRule,
  store: storeRule,
  retentionMs: numberRule(60_000, MAX_RETENTION_MS),
  concurrency: numberRule(1, 10_000),
  minDelayMs: numberRule(1, HOUR_MS),
  maxHoldMs: numberRule(0, 600_000),
  deferMs: numberRule(2, HOUR_MS),
  maxDeferMs: numberRule(2, DAY_MS),
  maxLost: numberRule(1, 100),
  pause: anything,
  idempotent: booleanRule,
  classify: functionRule,
  describeError: functionRule,
  onEvent: functionRule,
  clock: anything,
  random: anything,
};

const PAUSE_FIELDS: Fields & Readonly<Record<keyof PauseOptions, unknown>> = {
  window: numberRule(2, 1000),
  minErrors: numberRule(1, 1000),
  share: numberRule(0.1, 0.99, true),
  probeMs: numberRule(100, HOUR_MS),
  maxProbeMs: numberRule(100, DAY_MS),
};

function pauseOptionsOf(given: PauseOptions): ResolvedPauseOptions {
  const { window = 20, share = 0.5, probeMs = 5000 } = given ?? {};
  const { minErrors = Math.ceil(window / 2), maxProbeMs = Math.max(probeMs, 300_000) } =
    given ?? {};
  return { window, minErrors, share, probeMs, maxProbeMs };
}

function problemsOfPause(
  given: PauseOptions | false | undefined,
  resolved: ResolvedPauseOptions | undefined,
): readonly FieldProblem[] {
  if (given === undefined || resolved === undefined) return [];
  const problems = checkFields(given, PAUSE_FIELDS, "pause.");
  const { window, minErrors, probeMs, maxProbeMs } = resolved;
  if (problems.length > 0) return problems;
  if (minErrors > window) {
    return [mustBe("pause.minErrors", minErrors, `at most pause.window, ${window}`)];
  }
  if (maxProbeMs < probeMs) {
    return [mustBe("pause.maxProbeMs", maxProbeMs, `at least pause.probeMs, ${probeMs}`)];
  }
  return [];
}

function mustBe(field: string, value: number, wanted: string): FieldProblem {
  return { field, value, message: `${field} must be ${wanted}, got ${value}` };
}

/** Creates a consumer. Give it to an adapter, or call its `handle` with each message. */
export function consume<Body = unknown>(
  handler: MessageHandler<Body>,
  options: ConsumeOptions = {},
): Consumer<Body> {
  if (typeof handler !== "function") throw invalidArgument("handler must be a function", handler);
  const pause = options.pause === false ? undefined : pauseOptionsOf(options.pause ?? {});
  const problems = [...checkFields(options, FIELDS), ...problemsOfPause(options.pause, pause)];
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  const { name = "messages", random: source = systemRandom, maxHoldMs = 10_000 } = options;
  const random = source.fork(name);
  const destination = destinationOf(options, name, random);
  return new Consumer({
    name,
    handler,
    destination,
    clock: destination.clock,
    random,
    duplicates: duplicatesOf(options, name, destination, maxHoldMs),
    concurrency: options.concurrency ?? 10,
    minDelayMs: options.minDelayMs ?? 100,
    maxHoldMs,
    deferMs: options.deferMs ?? 5000,
    maxDeferMs: options.maxDeferMs ?? HOUR_MS,
    maxLost: options.maxLost ?? 3,
    idempotent: options.idempotent ?? true,
    pause,
    classify: options.classify,
    describeError: options.describeError ?? describeError,
    onEvent: options.onEvent,
  });
}

function duplicatesOf(
  { store, retentionMs = DAY_MS }: ConsumeOptions,
  scope: string,
  { policy, clock }: Destination,
  maxHoldMs: number,
): Duplicates | undefined {
  if (store === undefined) return undefined;
  const leaseMs = maxHoldMs + policy.attemptTimeoutMs + LEASE_MARGIN_MS;
  return new Duplicates({ store, clock, scope, retentionMs, leaseMs });
}

function destinationOf(options: ConsumeOptions, name: string, random: Random): Destination {
  const { destination, policy = "background", clock = systemClock } = options;
  if (destination === undefined) {
    // The broker spaces the deliveries. A budget would also hold retries while there is no first attempt.
    return createDestination(name, { policy, clock, random, retryBudget: false });
  }
  for (const field of ["policy", "clock"] as const) {
    if (options[field] === undefined) continue;
    throw invalidArgument(`${field} must be an option of the destination`, options[field]);
  }
  return destination;
}
