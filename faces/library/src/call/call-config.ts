/**
 * Call config: what all calls with the same options share. Checking and completing a policy costs
 * more than a successful call, so it is done once per set of options. Options are found again by
 * identity, or by value if each call passes a new literal.
 */
import {
  booleanRule,
  checkFields,
  choiceRule,
  DocumentError,
  type Fields,
  POLICY_FIELDS,
  type Policy,
  type PolicyDocument,
  type Random,
  type Rule,
  resolvePolicy,
  systemRandom,
  systemTime,
  type TimeSource,
} from "@redrive/core";
import { type SharedTimer, sharedTimerOf } from "./shared-timer.ts";

export interface CallConfig {
  readonly policy: Policy;
  readonly clock: TimeSource;
  readonly random: Random;
  readonly timer: SharedTimer;
  /** Name of the destination, for events and errors. */
  readonly name: string | undefined;
  /** Timeout of an attempt that starts together with its call. */
  readonly timeoutMs: number;
  /** True until the first call has started, and for all calls if the policy requires a key. */
  needsCheck: boolean;
}

export function createCallConfig(
  policy: Policy,
  clock: TimeSource = systemTime,
  random: Random = systemRandom,
  name?: string,
): CallConfig {
  const { attemptTimeoutMs, totalBudgetMs } = policy;
  const timeoutMs = Math.min(attemptTimeoutMs, totalBudgetMs);
  return { policy, clock, random, timer: sharedTimerOf(clock), name, timeoutMs, needsCheck: true };
}

type OptionRecord = Readonly<Record<string, unknown>>;

const anything: Rule = () => undefined;

function typeRule(type: string): Rule {
  return (value) => (typeof value === type && value !== null ? undefined : `of type ${type}`);
}

const aFunction = typeRule("function");
const aString = typeRule("string");

/**
 * Fields of a single call, beside those of the policy. Their values differ from call to call, so they
 * are checked for each call and do not distinguish sets of options.
 */
const CALL_FIELDS: Fields = {
  signal: typeRule("object"),
  classify: aFunction,
  shouldRetry: aFunction,
  rejectWith: choiceRule("redrive-error", "last-error"),
  idempotencyKey: aString,
  method: aString,
  idempotent: booleanRule,
  deadlineAt: typeRule("number"),
  onEvent: aFunction,
  nested: choiceRule("yield", "retry"),
  patience: choiceRule("fail-fast", "wait"),
  once: booleanRule,
  keepLast: booleanRule,
  key: aString,
  fallback: aFunction,
  request: typeRule("object"),
};

/**
 * Node of the tree of known options: from the root, each field's name leads to a node, and its value
 * to the next one. The time to find a literal depends on its fields, not on the number of literals.
 */
export class OptionsNode {
  readonly next: Map<unknown, OptionsNode> = new Map();
  /** Set after the name of a call field: all values that pass the rule lead here. */
  rule: Rule | undefined = undefined;
  config: CallConfig | undefined = undefined;
  /** The last field that was followed from here, and its node: most literals are repeated. */
  lastName: string | undefined = undefined;
  lastValue: unknown = undefined;
  lastNode: OptionsNode | undefined = undefined;
}

/** With more names and values than this the tree is cleared, so its memory is bounded. */
const MAX_KEYS = 5000;

/** Finds the config for a call's options. Checks new options and creates their config. */
export class CallConfigCache {
  readonly #fields: Fields;
  readonly #create: (policy: PolicyDocument, options: OptionRecord) => CallConfig;
  readonly #byIdentity = new WeakMap<object, CallConfig>();
  private root: OptionsNode = new OptionsNode();
  #keyCount = 0;
  #lastOptions: object | undefined = undefined;
  #lastConfig: CallConfig | undefined = undefined;

  /** `more` has further fields that options may have. */
  constructor(more: Fields, create: (policy: PolicyDocument, options: OptionRecord) => CallConfig) {
    this.#fields = { ...POLICY_FIELDS, ...CALL_FIELDS, ...more };
    this.#create = create;
  }

  get(options: object): CallConfig {
    if (options === this.#lastOptions) return this.#lastConfig as CallConfig;
    const config = this.#find(options) ?? this.#byIdentity.get(options) ?? this.#add(options);
    this.#lastOptions = options;
    this.#lastConfig = config;
    return config;
  }

  #find(options: object): CallConfig | undefined {
    let node: OptionsNode | undefined = this.root;
    // biome-ignore lint/suspicious/useGuardForIn: objects that may inherit names are excluded below
    for (const name in options) {
      const value = (options as OptionRecord)[name];
      const isRepeated: boolean = name === node.lastName && value === node.lastValue;
      node = isRepeated ? node.lastNode : follow(node, name, value);
      if (node === undefined) return undefined;
    }
    // Inherited fields do not count, but the loop above reads them.
    const isLiteral = options && Object.getPrototypeOf(options) === Object.prototype;
    return isLiteral ? node.config : undefined;
  }

  #add(options: object): CallConfig {
    const problems = checkFields(options, this.#fields);
    if (problems.length > 0) throw new DocumentError("INVALID_POLICY", problems);
    const policy = Object.entries(options).filter(
      ([name, value]) => value !== undefined && Object.hasOwn(POLICY_FIELDS, name),
    );
    const config = this.#create(Object.fromEntries(policy), options as OptionRecord);
    this.#byIdentity.set(options, config);
    this.#insert(options, config);
    return config;
  }

  #insert(options: object, config: CallConfig): void {
    if (this.#keyCount > MAX_KEYS) {
      this.root = new OptionsNode();
      this.#keyCount = 0;
    }
    let node = this.root;
    for (const [name, value] of Object.entries(options)) {
      node = this.#extend(node, [name]);
      if (Object.hasOwn(CALL_FIELDS, name)) node.rule = CALL_FIELDS[name];
      else node = this.#extend(node, Array.isArray(value) ? keysOf(value) : [value]);
    }
    node.config = config;
  }

  #extend(from: OptionsNode, keys: readonly unknown[]): OptionsNode {
    this.#keyCount += keys.length;
    return keys.reduce((node: OptionsNode, key) => {
      const next = node.next.get(key) ?? new OptionsNode();
      node.next.set(key, next);
      return next;
    }, from);
  }
}

function follow(from: OptionsNode, name: string, value: unknown): OptionsNode | undefined {
  const named = from.next.get(name);
  if (named?.rule) return value === undefined || !named.rule(value) ? named : undefined;
  if (Array.isArray(value)) {
    return keysOf(value).reduce((node: OptionsNode | undefined, key) => node?.next.get(key), named);
  }
  const node = named?.next.get(value);
  if (node) {
    from.lastName = name;
    from.lastValue = value;
    from.lastNode = node;
  }
  return node;
}

/** A list is found by its items. The length comes first, so that no item is mistaken for a name. */
function keysOf(list: readonly unknown[]): readonly unknown[] {
  return [Array, list.length, ...list];
}

/** The configs of `retry`, whose options may also have a clock and a random source. */
export const retryConfigs: CallConfigCache = new CallConfigCache(
  { clock: anything, random: anything },
  (policy, { clock, random }) =>
    createCallConfig(
      resolvePolicy(policy),
      clock as TimeSource | undefined,
      random as Random | undefined,
    ),
);
