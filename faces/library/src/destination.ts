/**
 * Destination: everything that contends for one dependency, with the guards its calls share. Make
 * one per dependency and keep it; its document is the service's and the simulator's too.
 */
import {
  type Clock,
  createGuards,
  type DestinationDocument,
  type Destination as DestinationOptions,
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
import { Call } from "./call.ts";
import type { CallEvent, CallEventType, CallListener, EventOf } from "./events.ts";
import { Gatekeeper } from "./gatekeeper.ts";
import { GuardedHost } from "./guarded-host.ts";
import type { AttemptContext, Attempted, Classify, Fallback, RunOptions } from "./options.ts";
import { readState, restoreKeys, type SavedState, saveState } from "./saved-state.ts";
import { createSetting, type Setting, SettingCache } from "./setting.ts";
import { start } from "./start-call.ts";
import { type DestinationStats, statsOf } from "./stats.ts";
import { type Wrapped, wrapped } from "./wrapped.ts";

/** What a program says beside the document: functions, and what it wires in. */
export interface DestinationWiring {
  /** Judges every call's endings, unless the call brings its own. */
  readonly classify?: Classify<never>;
  readonly fallback?: Fallback<never>;
  /** Asked before `fallback`, if the call brings none of its own: `handOff` of `redrive/hand-off`. */
  readonly onExhausted?: Fallback<never>;
  /** Gets new credentials after a 401; the call is then repeated once. */
  readonly reauthenticate?: () => void | PromiseLike<void>;
  readonly onEvent?: CallListener;
  /** A budget made with `sharedBudget`, for several destinations behind one bottleneck. */
  readonly sharedBudget?: RetryBudget;
  /** What `save` gave in an earlier life. */
  readonly saved?: unknown;
  readonly clock?: Clock;
  readonly random?: Random;
}

export interface DestinationInput extends DestinationDocument, DestinationWiring {}

/** Calls to one dependency, and what they share. */
export interface Destination {
  readonly name: string;
  readonly policy: Policy;
  /** The clock it runs on. */
  readonly clock: Clock;
  /** Judges the endings of calls that bring no judgement of their own. */
  readonly classify: Classify<never> | undefined;
  /** Calls `fn` under the destination's policy and guards; any field may be overridden per call. */
  run<T>(fn: Attempted<T>, overrides?: RunOptions<T>): Promise<T>;
  /** The same function, guarded: `this`, arguments and types stay as they are. */
  wrap<Args extends readonly unknown[], T>(
    fn: (...args: Args) => T | PromiseLike<T>,
    overrides?: RunOptions<T>,
  ): Wrapped<Args, T>;
  /** As `wrap`, for a function that takes the attempt's context before its own arguments. */
  wrapWithContext<Args extends readonly unknown[], T>(
    fn: (context: AttemptContext, ...args: Args) => T | PromiseLike<T>,
    overrides?: RunOptions<T>,
  ): Wrapped<Args, T>;
  /** Listens to one kind of event, or to all with "*". Returns what ends it. */
  on<Type extends CallEventType | "*">(
    type: Type,
    listener: (event: EventOf<Type>) => void,
  ): () => void;
  stats(): DestinationStats;
  /** The guards' state as JSON, for a later life. */
  save(): SavedState;
  /** Drops all listeners. Calls under way go on. */
  [Symbol.dispose](): void;
}

export function destination(name: string, input: DestinationInput = {}): Destination {
  if (!name || typeof name !== "string") throw invalidArgument("name must be a text", name);
  if (!isObject(input)) throw invalidArgument("options must be an object", input);
  return new GuardedDestination(name, input);
}

const NO_OVERRIDES: object = {};

class GuardedDestination implements Destination {
  readonly name: string;
  readonly #options: DestinationOptions;
  readonly #wiring: DestinationWiring;
  readonly #setting: Setting;
  readonly #settings: SettingCache;
  readonly #host: GuardedHost;

  constructor(name: string, input: DestinationInput) {
    const { document, wiring } = split(input);
    this.name = name;
    this.#wiring = wiring;
    this.#options = resolveDestination(document, "library");
    const { policy, idempotent, hedge } = this.#options;
    const { clock = systemClock, random = systemRandom } = wiring;
    this.#setting = createSetting(policy, clock, random.fork(name), name);
    this.#host = new GuardedHost(
      this.#createGatekeeper(clock.now()),
      this.#setting,
      idempotent,
      hedge,
      wiring,
    );
    // As it was written, so that overrides complete with the right defaults.
    const base = policyDocumentOf(document.policy ?? {});
    this.#settings = new SettingCache({}, (overrides) =>
      createSetting(resolvePolicy({ ...base, ...overrides }), clock, this.#setting.random, name),
    );
    if (wiring.onEvent !== undefined) this.on("*", wiring.onEvent);
  }

  #createGatekeeper(now: number): Gatekeeper {
    const { saved, sharedBudget } = this.#wiring;
    const guardOptions = guardOptionsOf(this.#options);
    const state = saved === undefined ? undefined : readState(saved);
    const guards = state
      ? restoreGuards(guardOptions, state.guards, now, sharedBudget)
      : createGuards(guardOptions, now, sharedBudget);
    const gatekeeper = new Gatekeeper(this.#options, guards, this.#setting.random);
    if (state) restoreKeys(gatekeeper, this.#options.breaker, state, now);
    return gatekeeper;
  }

  get policy(): Policy {
    return this.#options.policy;
  }

  get clock(): Clock {
    return this.#wiring.clock ?? systemClock;
  }

  get classify(): Classify<never> | undefined {
    return this.#wiring.classify;
  }

  run<T>(fn: Attempted<T>, overrides: RunOptions<T> = NO_OVERRIDES as RunOptions<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const setting = overrides === NO_OVERRIDES ? this.#setting : this.#settings.get(overrides);
      const options =
        this.#wiring.classify === undefined ? overrides : this.#withClassify(overrides);
      const call = new Call(setting, fn, options, resolve, reject, this.#host);
      const { gatekeeper } = this.#host;
      const { key } = options;
      call.breaker =
        key === undefined
          ? gatekeeper.breaker
          : gatekeeper.breakerOf(key, setting.ticker.turn.now());
      start(call);
    });
  }

  #withClassify<T>(overrides: RunOptions<T>): RunOptions<T> {
    const classify = overrides.classify ?? (this.#wiring.classify as Classify<T> | undefined);
    return { ...overrides, classify };
  }

  wrap<Args extends readonly unknown[], T>(
    fn: (...args: Args) => T | PromiseLike<T>,
    overrides?: RunOptions<T>,
  ): Wrapped<Args, T> {
    return wrapped(this, fn, overrides);
  }

  wrapWithContext<Args extends readonly unknown[], T>(
    fn: (context: AttemptContext, ...args: Args) => T | PromiseLike<T>,
    overrides?: RunOptions<T>,
  ): Wrapped<Args, T> {
    return wrapped(this, fn, overrides, true);
  }

  on<Type extends CallEventType | "*">(
    type: Type,
    listener: (event: EventOf<Type>) => void,
  ): () => void {
    const all = this.#host.listeners;
    const heard = (event: CallEvent) => listener(event as EventOf<Type>);
    const listeners = all.get(type) ?? new Set();
    all.set(type, listeners.add(heard));
    return () => {
      listeners.delete(heard);
      if (listeners.size === 0 && all.get(type) === listeners) all.delete(type);
    };
  }

  stats(): DestinationStats {
    return statsOf(this.name, this.#host.counts, this.#host.gatekeeper, this.clock.now());
  }

  save(): SavedState {
    return saveState(this.#host.gatekeeper);
  }

  [Symbol.dispose](): void {
    this.#host.listeners.clear();
  }
}

const WIRING: readonly string[] = [
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

/** The document apart from the wiring, since the document alone is checked and shared. */
function split(input: DestinationInput): {
  document: DestinationDocument;
  wiring: DestinationWiring;
} {
  const document: Record<string, unknown> = {};
  const wiring: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(input)) {
    if (value !== undefined) (WIRING.includes(name) ? wiring : document)[name] = value;
  }
  return { document, wiring };
}
