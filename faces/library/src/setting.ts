/**
 * Setting: what all calls under one policy share. Checking and completing a policy costs more than
 * a call that succeeds, so options are looked at once: found again by identity if they are kept,
 * by value if a literal is written anew for each call.
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
import { type Ticker, tickerOf } from "./ticker.ts";

export interface Setting {
  readonly policy: Policy;
  readonly clock: TimeSource;
  readonly random: Random;
  readonly ticker: Ticker;
  /** Name of the destination, for events and errors. */
  readonly name: string | undefined;
  /** The most an attempt may take that begins with the call. */
  readonly timeoutMs: number;
  /** True until the first call has begun, and for all calls if the policy demands a key. */
  needsCheck: boolean;
}

export function createSetting(
  policy: Policy,
  clock: TimeSource = systemTime,
  random: Random = systemRandom,
  name?: string,
): Setting {
  const { attemptTimeoutMs, totalBudgetMs } = policy;
  const timeoutMs = Math.min(attemptTimeoutMs, totalBudgetMs);
  return { policy, clock, random, ticker: tickerOf(clock), name, timeoutMs, needsCheck: true };
}

type Plain = Readonly<Record<string, unknown>>;

const anything: Rule = () => undefined;

function typeRule(type: string): Rule {
  return (value) => (typeof value === type && value !== null ? undefined : `of type ${type}`);
}

const aFunction = typeRule("function");
const aText = typeRule("string");

/**
 * What may stand beside the policy's fields and concerns the one call alone. Values differ from call
 * to call, so they are checked for each, and options are found again whatever they are.
 */
const CALL_FIELDS: Fields = {
  signal: typeRule("object"),
  classify: aFunction,
  shouldRetry: aFunction,
  rejectWith: choiceRule("redrive-error", "last-error"),
  idempotencyKey: aText,
  method: aText,
  idempotent: booleanRule,
  deadlineAt: typeRule("number"),
  onEvent: aFunction,
  nested: choiceRule("yield", "retry"),
  patience: choiceRule("fail-fast", "wait"),
  once: booleanRule,
  keepLast: booleanRule,
  key: aText,
  fallback: aFunction,
  request: typeRule("object"),
};

/**
 * Options seen before, as a tree: from the root, each field's name leads to a node, and its value to
 * the next. The time to find a literal again depends on its fields, not on the number of literals.
 */
export class SeenOptions {
  readonly next: Map<unknown, SeenOptions> = new Map();
  /** After the name of a field that concerns the one call: all values that pass it lead here. */
  rule: Rule | undefined = undefined;
  setting: Setting | undefined = undefined;
  /** The field that was last followed from here, and where it led: most literals are repeated. */
  lastName: string | undefined = undefined;
  lastValue: unknown = undefined;
  lastNode: SeenOptions | undefined = undefined;
}

/** After this many names and values the tree starts again from nothing: its memory is bounded. */
const MAX_SEEN_KEYS = 5000;

/** Finds the setting for a call's options; unknown ones are checked and made. */
export class SettingCache {
  readonly #fields: Fields;
  readonly #create: (policy: PolicyDocument, options: Plain) => Setting;
  readonly #kept = new WeakMap<object, Setting>();
  private seen: SeenOptions = new SeenOptions();
  #seenKeys = 0;
  #lastOptions: object | undefined = undefined;
  #lastSetting: Setting | undefined = undefined;

  /** `more` names further fields that options may have. */
  constructor(more: Fields, create: (policy: PolicyDocument, options: Plain) => Setting) {
    this.#fields = { ...POLICY_FIELDS, ...CALL_FIELDS, ...more };
    this.#create = create;
  }

  get(options: object): Setting {
    if (options === this.#lastOptions) return this.#lastSetting as Setting;
    const setting = this.#recall(options) ?? this.#kept.get(options) ?? this.#add(options);
    this.#lastOptions = options;
    this.#lastSetting = setting;
    return setting;
  }

  #recall(options: object): Setting | undefined {
    let node: SeenOptions | undefined = this.seen;
    // biome-ignore lint/suspicious/useGuardForIn: objects that may inherit names are left out below
    for (const name in options) {
      const value = (options as Plain)[name];
      const isRepeated: boolean = name === node.lastName && value === node.lastValue;
      node = isRepeated ? node.lastNode : follow(node, name, value);
      if (node === undefined) return undefined;
    }
    // Inherited fields do not count, but the loop above has read them.
    const isLiteral = options && Object.getPrototypeOf(options) === Object.prototype;
    return isLiteral ? node.setting : undefined;
  }

  #add(options: object): Setting {
    const problems = checkFields(options, this.#fields);
    if (problems.length > 0) throw new DocumentError("INVALID_POLICY", problems);
    const policy = Object.entries(options).filter(
      ([name, value]) => value !== undefined && Object.hasOwn(POLICY_FIELDS, name),
    );
    const setting = this.#create(Object.fromEntries(policy), options as Plain);
    this.#kept.set(options, setting);
    this.#remember(options, setting);
    return setting;
  }

  #remember(options: object, setting: Setting): void {
    if (this.#seenKeys > MAX_SEEN_KEYS) {
      this.seen = new SeenOptions();
      this.#seenKeys = 0;
    }
    let node = this.seen;
    for (const [name, value] of Object.entries(options)) {
      node = this.#grow(node, [name]);
      if (Object.hasOwn(CALL_FIELDS, name)) node.rule = CALL_FIELDS[name];
      else node = this.#grow(node, Array.isArray(value) ? keysOf(value) : [value]);
    }
    node.setting = setting;
  }

  #grow(from: SeenOptions, keys: readonly unknown[]): SeenOptions {
    this.#seenKeys += keys.length;
    return keys.reduce((node: SeenOptions, key) => {
      const next = node.next.get(key) ?? new SeenOptions();
      node.next.set(key, next);
      return next;
    }, from);
  }
}

function follow(from: SeenOptions, name: string, value: unknown): SeenOptions | undefined {
  const named = from.next.get(name);
  if (named?.rule) return value === undefined || !named.rule(value) ? named : undefined;
  if (Array.isArray(value)) {
    return keysOf(value).reduce((node: SeenOptions | undefined, key) => node?.next.get(key), named);
  }
  const node = named?.next.get(value);
  if (node) {
    from.lastName = name;
    from.lastValue = value;
    from.lastNode = node;
  }
  return node;
}

/** A list is found again by its items. The length comes first, so that no item is taken for a name. */
function keysOf(list: readonly unknown[]): readonly unknown[] {
  return [Array, list.length, ...list];
}

/** The settings of `retry`, which has a clock and chance of its own per call. */
export const retrySettings: SettingCache = new SettingCache(
  { clock: anything, random: anything },
  (policy, { clock, random }) =>
    createSetting(
      resolvePolicy(policy),
      clock as TimeSource | undefined,
      random as Random | undefined,
    ),
);
