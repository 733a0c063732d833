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
  resolve,
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
  /** Whether the policy demands an idempotency key. */
  readonly needsKey: boolean;
}

export function createSetting(
  policy: Policy,
  clock: TimeSource = systemTime,
  random: Random = systemRandom,
  name?: string,
): Setting {
  const { attemptTimeoutMs, totalBudgetMs, requireIdempotencyKey: needsKey } = policy;
  const timeoutMs = Math.min(attemptTimeoutMs, totalBudgetMs);
  return { policy, clock, random, ticker: tickerOf(clock), name, timeoutMs, needsKey };
}

type Plain = Readonly<Record<string, unknown>>;

const anything: Rule = () => undefined;

function typeRule(type: string): Rule {
  const article = type === "object" ? "an" : "a";
  return (value) => (typeof value === type && value !== null ? undefined : `${article} ${type}`);
}

const aFunction = typeRule("function");
const aText = typeRule("string");

/**
 * What may stand beside the policy's fields and concerns the one call alone. Looked at when options
 * of a new shape are seen, since looking each time would cost more than the call.
 */
const CALL_FIELDS: Fields = {
  signal: typeRule("object"),
  classify: aFunction,
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

/** A set of options that was seen before. `ANY_VALUE` stands where the value does not matter. */
interface Remembered {
  readonly names: readonly string[];
  readonly values: readonly unknown[];
  readonly setting: Setting;
}

const ANY_VALUE: unknown = Symbol("any value");
const MAX_RECENT = 4;

/** Finds the setting for a call's options; unknown ones are checked and made. */
export class SettingCache {
  private readonly fields: Fields;
  private readonly create: (policy: PolicyDocument, options: Plain) => Setting;
  private readonly kept = new WeakMap<object, Setting>();
  private readonly recent: Remembered[] = [];
  private lastOptions: object | undefined = undefined;
  private lastSetting: Setting | undefined = undefined;

  /** `more` names further fields that options may have. */
  constructor(more: Fields, create: (policy: PolicyDocument, options: Plain) => Setting) {
    this.fields = { ...POLICY_FIELDS, ...CALL_FIELDS, ...more };
    this.create = create;
  }

  get(options: object): Setting {
    if (options === this.lastOptions) return this.lastSetting as Setting;
    const setting = this.recall(options) ?? this.kept.get(options) ?? this.add(options);
    this.lastOptions = options;
    this.lastSetting = setting;
    return setting;
  }

  private recall(options: object): Setting | undefined {
    const count = countOf(options);
    for (const remembered of this.recent) {
      if (saysTheSame(options as Plain, count, remembered)) return remembered.setting;
    }
    return undefined;
  }

  private add(options: object): Setting {
    const problems = checkFields(options, this.fields);
    if (problems.length > 0) throw new DocumentError("INVALID_POLICY", problems);
    const setting = this.create(policyOf(options), options as Plain);
    this.kept.set(options, setting);
    this.remember(options, setting);
    return setting;
  }

  private remember(options: object, setting: Setting): void {
    const names = Object.keys(options);
    const values = names.map((name) =>
      Object.hasOwn(CALL_FIELDS, name) ? ANY_VALUE : (options as Plain)[name],
    );
    // A name that was given without a value could be mistaken for one that is misspelt.
    if (values.includes(undefined)) return;
    this.recent.unshift({ names, values, setting });
    this.recent.splice(MAX_RECENT);
  }
}

/** Counted without making a list of them: for a literal, this is done for every call. */
function countOf(options: object): number {
  let count = 0;
  // biome-ignore lint/suspicious/useGuardForIn: an inherited name only makes the search miss
  for (const _ in options) count++;
  return count;
}

function saysTheSame(options: Plain, count: number, { names, values }: Remembered): boolean {
  if (count !== names.length) return false;
  for (let i = 0; i < count; i++) {
    const name = names[i] as string;
    if (values[i] === ANY_VALUE ? !(name in options) : options[name] !== values[i]) return false;
  }
  return true;
}

function policyOf(options: object): PolicyDocument {
  const isSaid = ([name, value]: readonly [string, unknown]) =>
    value !== undefined && Object.hasOwn(POLICY_FIELDS, name);
  return Object.fromEntries(Object.entries(options).filter(isSaid));
}

/** The settings of `retry`, which has a clock and chance of its own per call. */
export const retrySettings: SettingCache = new SettingCache(
  { clock: anything, random: anything },
  (policy, { clock, random }) =>
    createSetting(resolve(policy), clock as TimeSource | undefined, random as Random | undefined),
);
