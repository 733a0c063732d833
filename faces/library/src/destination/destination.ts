/**
 * Destination: the calls to one dependency, and the guards that they share. Create one per dependency
 * and reuse it. The service and the simulator use the same document.
 */

import {
  type Clock,
  createGuards,
  type DestinationDocument,
  type Destination as DestinationOptions,
  type Fields,
  guardOptionsOf,
  invalidArgument,
  isObject,
  type Policy,
  policyDocumentOf,
  type Random,
  type RetryBudget,
  resolveDestination,
  resolvePolicy,
  restoreGuards,
  systemClock,
  systemRandom,
} from "@redrive/core";
import { enableDestinations } from "../call/call.ts";
import {
  CALL_FIELDS,
  type CallConfig,
  createCallConfig,
  createConfigCache,
  type FindCallConfig,
  functionRule,
  stringRule,
  typeRule,
} from "../call/call-config.ts";
import type { CallEvent, CallEventType, CallListener, EventOf } from "../call/call-event.ts";
import { CallExecution } from "../call/call-execution.ts";
import type { AttemptContext, Classify, Fallback, Operation, RunOptions } from "../call/options.ts";
import { startCall } from "../call/start-call.ts";
import { DestinationRuntime } from "./destination-runtime.ts";
import { KeyedGuards } from "./keyed-guards.ts";
import { readState, restoreKeys, type SavedState, saveState } from "./saved-state.ts";
import { type DestinationStats, statsOf } from "./stats.ts";
import { type WrappedFunction, wrapFunction } from "./wrapped-function.ts";

/** What a program adds to the document: functions and other objects. */
export interface DestinationWiring {
  /** Classifies the results of all calls that have no `classify` of their own. */
  readonly classify?: Classify<never>;
  readonly fallback?: Fallback<never>;
  /** Runs before `fallback`, if the call has no fallback: `handOff` of `redrive/hand-off`. */
  readonly onExhausted?: Fallback<never>;
  /** Gets new credentials after a 401. The call is then repeated once. */
  readonly reauthenticate?: () => void | PromiseLike<void>;
  readonly onEvent?: CallListener;
  /** A budget created with `sharedBudget`, for several destinations behind one bottleneck. */
  readonly sharedBudget?: RetryBudget;
  /** What `save` returned before the process restarted. */
  readonly saved?: unknown;
  readonly clock?: Clock;
  readonly random?: Random;
}

export interface DestinationInput extends DestinationDocument, DestinationWiring {}

/** The calls to one dependency, and the state that they share. */
export interface Destination {
  readonly name: string;
  readonly policy: Policy;
  /** The clock it runs on. */
  readonly clock: Clock;
  /** Classifies the results of calls that have no `classify` of their own. */
  readonly classify: Classify<never> | undefined;
  /** Calls `fn` with the destination's policy and guards. Each call may override policy fields. */
  run<T>(fn: Operation<T>, overrides?: RunOptions<T>): Promise<T>;
  /** Returns `fn` with the guards applied. `this`, arguments and types do not change. */
  wrap<Args extends readonly unknown[], T>(
    fn: (...args: Args) => T | PromiseLike<T>,
    overrides?: RunOptions<T>,
  ): WrappedFunction<Args, T>;
  /** As `wrap`, for a function that takes the attempt's context as its first argument. */
  wrapWithContext<Args extends readonly unknown[], T>(
    fn: (context: AttemptContext, ...args: Args) => T | PromiseLike<T>,
    overrides?: RunOptions<T>,
  ): WrappedFunction<Args, T>;
  /** Listens to one type of event, or to all with "*". Returns a function that stops listening. */
  on<Type extends CallEventType | "*">(
    type: Type,
    listener: (event: EventOf<Type>) => void,
  ): () => void;
  stats(): DestinationStats;
  /** Returns the guards' state as JSON, to restore it after a restart. */
  save(): SavedState;
  /** Removes all listeners. Running calls continue. */
  [Symbol.dispose](): void;
}

/**
 * Creates the destination of one dependency. Create it once and export it: each call of this function
 * creates new guards, also for a name that is in use. The name is a label of events and errors.
 */
export function destination(name: string, input: DestinationInput = {}): Destination {
  if (!name || typeof name !== "string") throw invalidArgument("name must be a string", name);
  if (!isObject(input)) throw invalidArgument("options must be an object", input);
  return new GuardedDestination(name, input);
}

const NO_OVERRIDES: object = {};

const RUN_FIELDS: Fields = {
  ...CALL_FIELDS,
  key: stringRule,
  fallback: functionRule,
  request: typeRule("object"),
};

class GuardedDestination implements Destination {
  readonly name: string;
  readonly policy: Policy;
  readonly clock: Clock;
  readonly classify: Classify<never> | undefined;
  readonly #config: CallConfig;
  readonly #configOf: FindCallConfig;
  readonly #runtime: DestinationRuntime;

  constructor(name: string, input: DestinationInput) {
    enableDestinations();
    const { document, wiring } = splitInput(input);
    const options = resolveDestination(document, "library");
    const { policy, idempotent, hedge } = options;
    const { clock = systemClock, random: parent = systemRandom, classify } = wiring;
    const random = parent.fork(name);
    this.name = name;
    this.policy = policy;
    this.clock = clock;
    this.classify = classify;
    this.#config = createCallConfig(policy, clock, random, name);
    const guards = createKeyedGuards(options, wiring, random, clock.now());
    this.#runtime = new DestinationRuntime(guards, this.#config, idempotent, hedge, wiring);
    // The document as written, so that overrides get the right defaults.
    const base = policyDocumentOf(document.policy ?? {});
    this.#configOf = createConfigCache(RUN_FIELDS, {}, (overrides) =>
      createCallConfig(resolvePolicy({ ...base, ...overrides }), clock, random, name),
    );
    if (wiring.onEvent !== undefined) this.on("*", wiring.onEvent);
  }

  run<T>(fn: Operation<T>, overrides: RunOptions<T> = NO_OVERRIDES as RunOptions<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const { classify } = this;
      const config = overrides === NO_OVERRIDES ? this.#config : this.#configOf(overrides);
      const options = classify
        ? { ...overrides, classify: overrides.classify ?? (classify as Classify<T>) }
        : overrides;
      const call = new CallExecution(config, fn, options, resolve, reject);
      call.destination = this.#runtime;
      const { guards } = this.#runtime;
      const { key } = options;
      call.breaker =
        key === undefined ? guards.breaker : guards.breakerOf(key, config.timer.clock.now());
      startCall(call);
    });
  }

  wrap<Args extends readonly unknown[], T>(
    fn: (...args: Args) => T | PromiseLike<T>,
    overrides?: RunOptions<T>,
  ): WrappedFunction<Args, T> {
    return wrapFunction(this, fn, overrides);
  }

  wrapWithContext<Args extends readonly unknown[], T>(
    fn: (context: AttemptContext, ...args: Args) => T | PromiseLike<T>,
    overrides?: RunOptions<T>,
  ): WrappedFunction<Args, T> {
    return wrapFunction(this, fn, overrides, true);
  }

  on<Type extends CallEventType | "*">(
    type: Type,
    listener: (event: EventOf<Type>) => void,
  ): () => void {
    const all = this.#runtime.listeners;
    const forward = (event: CallEvent) => listener(event as EventOf<Type>);
    const listeners = all.get(type) ?? new Set();
    all.set(type, listeners.add(forward));
    return () => {
      listeners.delete(forward);
      if (listeners.size === 0 && all.get(type) === listeners) all.delete(type);
    };
  }

  stats(): DestinationStats {
    return statsOf(this.name, this.#runtime.counts, this.#runtime.guards, this.clock.now());
  }

  save(): SavedState {
    return saveState(this.#runtime.guards);
  }

  [Symbol.dispose](): void {
    this.#runtime.listeners.clear();
  }
}

/** Creates the guards, or restores them from a saved state. */
function createKeyedGuards(
  options: DestinationOptions,
  { saved, sharedBudget }: DestinationWiring,
  random: Random,
  now: number,
): KeyedGuards {
  const guardOptions = guardOptionsOf(options);
  const state = saved === undefined ? undefined : readState(saved);
  const guards = state
    ? restoreGuards(guardOptions, state.guards, now, sharedBudget)
    : createGuards(guardOptions, now, sharedBudget);
  const keyedGuards = new KeyedGuards(options, guards, random);
  if (state) restoreKeys(keyedGuards, options.breaker, state, now);
  return keyedGuards;
}

const WIRING_FIELDS: readonly string[] = [
  "classify",
  "fallback",
  "onExhausted",
  "reauthenticate",
  "onEvent",
  "sharedBudget",
  "saved",
  "clock",
  "random",
] satisfies (keyof DestinationWiring)[];

/** Separates the document, which is checked and shared, from the wiring. */
function splitInput(input: DestinationInput): {
  document: DestinationDocument;
  wiring: DestinationWiring;
} {
  const document: Record<string, unknown> = {};
  const wiring: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(input)) {
    if (value !== undefined) (WIRING_FIELDS.includes(name) ? wiring : document)[name] = value;
  }
  return { document, wiring };
}
