/**
 * Call config: what all calls with the same options share. Checking and completing a policy costs
 * more than a successful call, so it is done once per set of options. Options are found again by
 * value, never by identity: a program may change an object that it has passed before.
 */
import {
  booleanRule,
  checkFields,
  choiceRule,
  DocumentError,
  type Fields,
  isObject,
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

export function typeRule(type: string): Rule {
  return (value) => (typeof value === type && value !== null ? undefined : `of type ${type}`);
}

export const functionRule: Rule = typeRule("function");
export const stringRule: Rule = typeRule("string");

/**
 * Fields of a single call, beside those of the policy. Their values differ from call to call, so they
 * are checked for each call and do not distinguish sets of options.
 */
export const CALL_FIELDS: Fields = {
  signal: typeRule("object"),
  classify: functionRule,
  shouldRetry: functionRule,
  rejectWith: choiceRule("redrive-error", "last-error"),
  idempotencyKey: stringRule,
  method: stringRule,
  idempotent: booleanRule,
  deadlineAt: typeRule("number"),
  onEvent: functionRule,
  nested: choiceRule("yield", "retry"),
  patience: choiceRule("fail-fast", "wait"),
  once: booleanRule,
  keepLast: booleanRule,
};

/**
 * Node of the tree of known options: from the root, each field's name leads to a node, and its value
 * to the next one. The time to find a literal depends on its fields, not on the number of literals.
 */
interface OptionsNode {
  readonly next: Map<unknown, OptionsNode>;
  /** Set after the name of a call field: all values that pass the rule lead here. */
  rule: Rule | undefined;
  config: CallConfig | undefined;
  /** The last field that was followed from here, and its node: most literals are repeated. */
  lastName: string | undefined;
  lastValue: unknown;
  lastNode: OptionsNode | undefined;
}

function createNode(): OptionsNode {
  return {
    next: new Map(),
    rule: undefined,
    config: undefined,
    lastName: undefined,
    lastValue: undefined,
    lastNode: undefined,
  };
}

/** With more names and values than this the tree is cleared, so its memory is bounded. */
const MAX_KEYS = 5000;

/** Finds the config for a call's options. Checks new options and creates their config. */
export type FindCallConfig = (options: object) => CallConfig;

/**
 * Creates a cache of configs. `callFields` are the fields of a single call, and `more` are those that
 * distinguish sets of options besides those of the policy.
 */
export function createConfigCache(
  callFields: Fields,
  more: Fields,
  create: (policy: PolicyDocument, options: OptionRecord) => CallConfig,
): FindCallConfig {
  const fields: Fields = { ...POLICY_FIELDS, ...callFields, ...more };
  let root = createNode();
  let keyCount = 0;

  function add(options: object): CallConfig {
    const problems = checkFields(options, fields);
    if (problems.length > 0) throw new DocumentError("INVALID_POLICY", problems);
    const entries = Object.entries(options);
    const policy = entries.filter(
      ([name, value]) => value !== undefined && Object.hasOwn(POLICY_FIELDS, name),
    );
    const config = create(Object.fromEntries(policy), options as OptionRecord);
    insert(entries, config);
    return config;
  }

  function insert(entries: readonly (readonly [string, unknown])[], config: CallConfig): void {
    if (keyCount > MAX_KEYS) {
      root = createNode();
      keyCount = 0;
    }
    let node = root;
    const extend = (key: unknown) => {
      const next = node.next.get(key) ?? createNode();
      node.next.set(key, next);
      node = next;
      keyCount++;
    };
    for (const [name, value] of entries) {
      extend(name);
      if (Object.hasOwn(callFields, name)) node.rule = callFields[name];
      else keysOf(value).forEach(extend);
    }
    node.config = config;
  }

  return (options) => find(root, options) ?? add(options);
}

/** Undefined also for what is no object. Inherited fields do not count. */
function find(root: OptionsNode, options: object): CallConfig | undefined {
  if (!isObject(options)) return undefined;
  const isLiteral = Object.getPrototypeOf(options) === Object.prototype;
  return findLiteral(root, (isLiteral ? options : { ...options }) as OptionRecord);
}

function findLiteral(root: OptionsNode, options: OptionRecord): CallConfig | undefined {
  let node: OptionsNode | undefined = root;
  // biome-ignore lint/suspicious/useGuardForIn: a literal inherits no names
  for (const name in options) {
    const value = options[name];
    const isRepeated: boolean = name === node.lastName && value === node.lastValue;
    node = isRepeated ? node.lastNode : follow(node, name, value);
    if (node === undefined) return undefined;
  }
  return node.config;
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
function keysOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? [Array, value.length, ...value] : [value];
}

/** The configs of `retry`, whose options may also have a clock and a random source. */
export const retryConfigOf: FindCallConfig = createConfigCache(
  CALL_FIELDS,
  { clock: anything, random: anything },
  (policy, { clock, random }) =>
    createCallConfig(
      resolvePolicy(policy),
      clock as TimeSource | undefined,
      random as Random | undefined,
    ),
);
