/**
 * Destination: the calls to one dependency, and the guards that they share. Create one per dependency
 * and reuse it. The service and the simulator use the same document.
 */
import {
  type Breaker,
  type Clock,
  createGuards,
  createRetryBudget,
  type DestinationDocument,
  type Destination as DestinationOptions,
  type Fields,
  guardOptionsOf,
  invalidArgument,
  isObject,
  type Policy,
  type PolicyDocument,
  policyDocumentOf,
  type Random,
  type RetryBudget,
  type RetryBudgetDocument,
  type RetryBudgetOptions,
  resolveDestination,
  resolvePolicy,
  restoreGuards,
  systemClock,
  systemRandom,
} from "@redrive/core";
import { type Call, enableDestinations } from "../call/call.ts";
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
import type {
  AttemptContext,
  Classify,
  ClassifyAny,
  Fallback,
  Operation,
  RunOptions,
} from "../call/options.ts";
import { CallExecution, startCall } from "../call/retry.ts";
import { DestinationRuntime } from "./destination-runtime.ts";
import {
  type DestinationStats,
  KeyedGuards,
  readState,
  restoreKeys,
  type SavedState,
  saveState,
  setBounded,
  statsOf,
} from "./keyed-guards.ts";

/** What a program adds to the document: functions and other objects. */
export interface DestinationWiring {
  /** Classifies the results of all calls that have no `classify` of their own. */
  readonly classify?: ClassifyAny | undefined;
  readonly fallback?: Fallback | undefined;
  /** Runs before `fallback`, if the call has no fallback: `handOff` of `redrive/hand-off`. */
  readonly onExhausted?: Fallback | undefined;
  /** Gets new credentials after a 401. The call is then repeated once. */
  readonly reauthenticate?: (() => void | PromiseLike<void>) | undefined;
  readonly onEvent?: CallListener | undefined;
  /**
   * What calls with different keys (`key`) have of their own: a breaker, or all guards but the retry budget,
   * such as the limits of one shard or host. Default: breaker.
   */
  readonly perKey?: "breaker" | "guards" | undefined;
  /** A budget created with `sharedBudget`, for several destinations behind one bottleneck. */
  readonly sharedBudget?: RetryBudget | undefined;
  /** What `save` returned before the process restarted. */
  readonly saved?: unknown | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

export interface DestinationInput extends DestinationDocument, DestinationWiring {}

/** The calls to one dependency, and the state that they share. */
export interface Destination {
  readonly name: string;
  readonly policy: Policy;
  /** The clock it runs on. */
  readonly clock: Clock;
  /** Classifies the results of calls that have no `classify` of their own. */
  readonly classify: ClassifyAny | undefined;
  /** Calls `fn` with the destination's policy and guards. Each call may override policy fields. */
  run<T>(fn: Operation<T>, overrides?: RunOptions<T>): Promise<T>;
  /** Returns `fn` with the guards applied. `this`, arguments and types do not change. */
  wrap<Fn extends AnyFunction>(
    fn: Fn,
    overrides?: RunOptions<Awaited<ReturnType<Fn>>>,
  ): Wrapped<Fn>;
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
  readonly classify: ClassifyAny | undefined;
  readonly #config: CallConfig;
  readonly #configOf: FindCallConfig;
  readonly #runtime: DestinationRuntime;
  /** The guards of one key, if keys have guards of their own. */
  readonly #createRuntime:
    | ((key: string, now: number, breaker?: Breaker) => DestinationRuntime)
    | undefined;
  readonly #runtimes = new Map<string, DestinationRuntime>();

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
    const whole = new DestinationRuntime(guards, this.#config, idempotent, hedge, wiring);
    this.#runtime = whole;
    if (hasKeyGuards(wiring)) {
      this.#createRuntime = (key, now, breaker) => {
        const created = createGuards(guardOptionsOf(options), now, guards.shared.retryBudget);
        const own = new KeyedGuards(
          options,
          { ...created, ...(breaker && { breaker }) },
          random.fork(key),
        );
        return new DestinationRuntime(own, this.#config, idempotent, hedge, wiring, whole);
      };
      for (const [key, breaker] of guards.breakers) this.#runtimeOf(key, clock.now(), breaker);
    }
    // The document as written, so that overrides get the right defaults, and as it was then.
    const written = JSON.stringify(policyDocumentOf(document.policy ?? {}));
    const base: PolicyDocument = JSON.parse(written);
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
      const { key } = options;
      if (key === undefined) {
        call.destination = this.#runtime;
        call.breaker = this.#runtime.guards.breaker;
      } else this.#useKey(call, key, config.timer.clock.now());
      startCall(call);
    });
  }

  wrap<Fn extends AnyFunction>(
    fn: Fn,
    overrides?: RunOptions<Awaited<ReturnType<Fn>>>,
  ): Wrapped<Fn> {
    return wrapSame(this, fn, overrides);
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

  #useKey<T>(call: Call<T>, key: string, now: number): void {
    const runtime = this.#createRuntime ? this.#runtimeOf(key, now) : this.#runtime;
    const { guards } = runtime;
    call.destination = runtime;
    call.breaker = runtime === this.#runtime ? guards.breakerOf(key, now) : guards.breaker;
  }

  #runtimeOf(key: string, now: number, breaker?: Breaker): DestinationRuntime {
    const runtime =
      this.#runtimes.get(key) ?? this.#createRuntime?.(key, now, breaker) ?? this.#runtime;
    // The key that was not used for the longest time is forgotten first.
    setBounded(this.#runtimes, key, runtime);
    return runtime;
  }

  /** The breakers of all keys. */
  #breakers(): ReadonlyMap<string, Breaker> {
    const own = [...this.#runtimes].flatMap(([key, { guards }]) =>
      guards.breaker ? [[key, guards.breaker] as const] : [],
    );
    return this.#createRuntime ? new Map(own) : this.#runtime.guards.breakers;
  }

  stats(): DestinationStats {
    const { counts, guards } = this.#runtime;
    const stats = statsOf(this.name, counts, guards, this.#breakers(), this.clock.now());
    const inKeys = [...this.#runtimes.values()].map((runtime) => runtime.guards.admission.inFlight);
    if (stats.inFlight === undefined) return stats;
    return { ...stats, inFlight: inKeys.reduce((sum, one) => sum + one, stats.inFlight) };
  }

  save(): SavedState {
    return saveState(this.#runtime.guards.shared, this.#breakers());
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

function hasKeyGuards({ perKey = "breaker" }: DestinationWiring): boolean {
  if (perKey !== "breaker" && perKey !== "guards") {
    throw invalidArgument('perKey must be "breaker" or "guards"', perKey);
  }
  return perKey === "guards";
}

const WIRING_FIELDS: readonly string[] = [
  "classify",
  "fallback",
  "onExhausted",
  "reauthenticate",
  "onEvent",
  "perKey",
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

/** Creates a budget. Pass it to several destinations as `sharedBudget`. */
export function sharedBudget(
  document: RetryBudgetDocument = {},
  clock: Clock = systemClock,
): RetryBudget {
  const { retryBudget } = resolveDestination({ retryBudget: document });
  // Only `false` turns a budget off, and `false` is not a document.
  return createRetryBudget(retryBudget as RetryBudgetOptions, clock.now());
}

// Functions whose calls go through a destination and keep `this` and arguments.

export interface WrappedFunction<Args extends readonly unknown[], T> {
  (...args: Args): Promise<T>;
  /** The same function, with further options for its calls, such as a `signal`. */
  with(options: RunOptions<T>): (...args: Args) => Promise<T>;
}

/**
 * The function that `wrap` makes of `Fn`: a function that returns a promise keeps its type, with type
 * parameters and overloads; any other one returns a promise now.
 */
export type Wrapped<Fn extends AnyFunction> = SameArguments<Fn> & {
  /** The same function, with further options for its calls, such as a `signal`. */
  with(options: RunOptions<Awaited<ReturnType<Fn>>>): SameArguments<Fn>;
};

type AnyFunction = (...args: never) => unknown;

type SameArguments<Fn extends AnyFunction> = Fn extends (...args: never) => Promise<unknown>
  ? Fn
  : (...args: Parameters<Fn>) => Promise<Awaited<ReturnType<Fn>>>;

interface Runner {
  run<T>(fn: Operation<T>, overrides?: RunOptions<T>): Promise<T>;
}

/** `fn` with its calls through the runner. */
export function wrapSame<Fn extends AnyFunction>(
  runner: Runner,
  fn: Fn,
  overrides: RunOptions<Awaited<ReturnType<Fn>>> | undefined,
): Wrapped<Fn> {
  const options = overrides as RunOptions<unknown> | undefined;
  return wrapFunction(runner, fn, options) as unknown as Wrapped<Fn>;
}

/** With `hasContext`, `fn` gets the attempt's context before its own arguments. */
export function wrapFunction<Args extends readonly unknown[], T>(
  runner: Runner,
  fn: (...args: never) => T | PromiseLike<T>,
  overrides?: RunOptions<T>,
  hasContext?: boolean,
): WrappedFunction<Args, T> {
  const bind = (options?: RunOptions<T>) =>
    function (this: unknown, ...args: Args): Promise<T> {
      const operation: Operation<T> = (context) =>
        Reflect.apply(fn, this, hasContext ? [context, ...args] : args);
      return runner.run(operation, options ? { ...overrides, ...options } : overrides);
    };
  return Object.assign(bind(), { with: bind });
}
