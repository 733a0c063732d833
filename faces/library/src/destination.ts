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
  type HedgeOptions,
  type Policy,
  type PolicyDocument,
  preset,
  type Random,
  type RetryBudget,
  resolve,
  resolveDestination,
  restoreGuards,
  systemClock,
  systemRandom,
} from "@redrive/core";
import type { Attempt } from "./attempt.ts";
import {
  type CallEvent,
  type CallEventType,
  type CallListener,
  type EventOf,
  notify,
} from "./events.ts";
import { Gatekeeper } from "./gatekeeper.ts";
import { GuardedCall } from "./guarded-call.ts";
import { HedgeRace, hedgeAfterMs } from "./hedge-race.ts";
import type { Host } from "./host.ts";
import type { Attempted, Classify, Fallback, FallbackContext, RunOptions } from "./options.ts";
import { readState, restoreKeys, type SavedState, saveState } from "./saved-state.ts";
import { createSetting, type Setting, SettingCache } from "./setting.ts";
import { type Counts, type DestinationStats, noCounts, statsOf } from "./stats.ts";

/** What a program says beside the document: functions, and what it wires in. */
export interface DestinationWiring {
  /** Judges every call's endings, unless the call brings its own. */
  readonly classify?: Classify<never>;
  readonly fallback?: Fallback<never>;
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
  /** The same function, guarded: arguments and types stay as they are. */
  wrap<Args extends readonly unknown[], T>(
    fn: (...args: Args) => T | PromiseLike<T>,
    overrides?: RunOptions<T>,
  ): (...args: Args) => Promise<T>;
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
  return new GuardedDestination(name, input);
}

const NO_OVERRIDES: object = {};

class GuardedDestination implements Destination, Host {
  readonly name: string;
  readonly gatekeeper: Gatekeeper;
  readonly hedge: HedgeOptions | undefined;
  readonly idempotent: boolean | undefined;
  readonly remembers: boolean;
  private readonly options: DestinationOptions;
  private readonly wiring: DestinationWiring;
  private readonly setting: Setting;
  private readonly settings: SettingCache;
  private readonly listeners = new Map<CallEventType | "*", Set<CallListener>>();
  readonly counts: Counts = noCounts();
  private renewing: Promise<void> | undefined = undefined;

  constructor(name: string, input: DestinationInput) {
    const { document, wiring } = split(input);
    this.name = name;
    this.wiring = wiring;
    this.options = resolveDestination(document, "library");
    this.hedge = this.options.hedge;
    this.idempotent = this.options.idempotent;
    this.remembers = wiring.fallback?.remember !== undefined;
    const { clock = systemClock, random = systemRandom } = wiring;
    this.setting = createSetting(this.options.policy, clock, random.fork(name), name);
    this.gatekeeper = this.createGatekeeper(clock.now());
    const base = baseOf(document);
    this.settings = new SettingCache({}, (policy) => ({
      ...this.setting,
      policy: resolve({ ...base, ...policy }),
    }));
    if (wiring.onEvent !== undefined) this.on("*", wiring.onEvent);
  }

  private createGatekeeper(now: number): Gatekeeper {
    const { saved, sharedBudget } = this.wiring;
    const guardOptions = guardOptionsOf(this.options);
    const { random } = this.setting;
    if (saved === undefined) {
      const guards = createGuards(guardOptions, now, sharedBudget);
      return new Gatekeeper(this.options, guards, random);
    }
    const state = readState(saved);
    const guards = restoreGuards(guardOptions, state.guards, now, sharedBudget);
    const gatekeeper = new Gatekeeper(this.options, guards, random);
    restoreKeys(gatekeeper, this.options.breaker, state, now);
    return gatekeeper;
  }

  get policy(): Policy {
    return this.options.policy;
  }

  get clock(): Clock {
    return this.setting.clock;
  }

  get classify(): Classify<never> | undefined {
    return this.wiring.classify;
  }

  run<T>(fn: Attempted<T>, overrides: RunOptions<T> = NO_OVERRIDES as RunOptions<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const setting = overrides === NO_OVERRIDES ? this.setting : this.settings.get(overrides);
      const options = this.wiring.classify === undefined ? overrides : this.withClassify(overrides);
      new GuardedCall(this, setting, fn, options, resolve, reject).start();
    });
  }

  private withClassify<T>(overrides: RunOptions<T>): RunOptions<T> {
    const classify = overrides.classify ?? (this.wiring.classify as Classify<T> | undefined);
    return { ...overrides, classify };
  }

  wrap<Args extends readonly unknown[], T>(
    fn: (...args: Args) => T | PromiseLike<T>,
    overrides?: RunOptions<T>,
  ): (...args: Args) => Promise<T> {
    return (...args) => this.run(() => fn(...args), overrides);
  }

  on<Type extends CallEventType | "*">(
    type: Type,
    listener: (event: EventOf<Type>) => void,
  ): () => void {
    const heard = (event: CallEvent) => listener(event as EventOf<Type>);
    const listeners = this.listeners.get(type) ?? new Set();
    this.listeners.set(type, listeners.add(heard));
    return () => {
      listeners.delete(heard);
      if (listeners.size === 0 && this.listeners.get(type) === listeners) {
        this.listeners.delete(type);
      }
    };
  }

  stats(): DestinationStats {
    return statsOf(this.name, this.counts, this.gatekeeper, this.setting.clock.now());
  }

  save(): SavedState {
    return saveState(this.gatekeeper);
  }

  [Symbol.dispose](): void {
    this.listeners.clear();
  }

  hasListeners(): boolean {
    return this.listeners.size > 0;
  }

  emit(event: CallEvent): void {
    for (const listener of this.listeners.get(event.type) ?? []) notify(listener, event);
    for (const listener of this.listeners.get("*") ?? []) notify(listener, event);
  }

  startRace<T>(call: GuardedCall<T>, attempt: Attempt<T>): HedgeRace<T> | undefined {
    const { hedge } = this.options;
    if (hedge === undefined || !call.mayHedge) return undefined;
    const { latency } = this.gatekeeper.guards;
    const afterMs = hedgeAfterMs(hedge, latency, this.setting.ticker.turn.now());
    return afterMs === undefined ? undefined : new HedgeRace(call, attempt, hedge, afterMs);
  }

  hasFallback<T>(call: GuardedCall<T>): boolean {
    return this.fallbackOf(call) !== undefined;
  }

  async fallBack<T>(call: GuardedCall<T>, error: unknown): Promise<T> {
    const fallback = this.fallbackOf(call);
    if (fallback === undefined) throw error;
    return await fallback(error, this.contextOf(call));
  }

  remember<T>(call: GuardedCall<T>, value: T): void {
    const fallback = this.fallbackOf(call);
    if (fallback?.remember === undefined) return;
    const context = this.contextOf(call);
    notify((good) => fallback.remember?.(good, context), value);
  }

  private fallbackOf<T>(call: GuardedCall<T>): Fallback<T> | undefined {
    return call.options.fallback ?? (this.wiring.fallback as Fallback<T> | undefined);
  }

  private contextOf<T>(call: GuardedCall<T>): FallbackContext {
    return {
      destination: this.name,
      key: call.options.key,
      attempts: call.attemptsMade,
      at: this.setting.clock.now(),
    };
  }

  reauthenticate(): Promise<void> | undefined {
    const { reauthenticate } = this.wiring;
    if (reauthenticate === undefined) return undefined;
    this.renewing ??= Promise.resolve()
      .then(reauthenticate)
      .finally(() => {
        this.renewing = undefined;
      });
    return this.renewing;
  }
}

/** The document apart from the functions, since the document alone is checked and shared. */
function split(input: DestinationInput): {
  document: DestinationDocument;
  wiring: DestinationWiring;
} {
  const {
    classify,
    fallback,
    reauthenticate,
    onEvent,
    sharedBudget,
    saved,
    clock,
    random,
    ...document
  } = input;
  const wiring = {
    classify,
    fallback,
    reauthenticate,
    onEvent,
    sharedBudget,
    saved,
    clock,
    random,
  };
  const given = Object.entries(wiring).filter(([, value]) => value !== undefined);
  return { document, wiring: Object.fromEntries(given) };
}

/** The policy as it was written, so that overrides complete with the right defaults. */
function baseOf({ policy = {} }: DestinationDocument): PolicyDocument {
  return typeof policy === "string" ? preset(policy) : policy;
}
