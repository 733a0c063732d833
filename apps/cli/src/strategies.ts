/**
 * Strategies: policies that are put side by side. `none,full` vary the jitter of one curve;
 * `immediate` does not wait at all; presets and the catalogue can be named beside them.
 */
import {
  type BackoffKind,
  type JitterType,
  type PolicyDocument,
  quote,
  RedriveError,
} from "@redrive/core";
import { type Command, Option } from "commander";
import { didYouMean } from "./flags.ts";
import {
  curveDocument,
  namedPolicy,
  type PolicyChoice,
  type PolicyFlags,
  policyFile,
  policyNames,
} from "./policy-choice.ts";

export interface StrategyFlags extends PolicyFlags {
  readonly compare?: readonly string[];
}

/** One scale for more than this is a wall of charts. */
const MOST = 6;

const JITTERS: Readonly<Record<string, JitterType>> = {
  none: "NONE",
  full: "FULL",
  equal: "EQUAL",
  decorrelated: "DECORRELATED",
};

const BACKOFFS: Readonly<Record<string, BackoffKind>> = { linear: "LINEAR", fixed: "FIXED" };

/** Three retries at once: what a loop without a wait does. */
const IMMEDIATE: PolicyDocument = {
  maxAttempts: 4,
  backoff: "FIXED",
  initialDelayMs: 0,
  jitterType: "NONE",
};

const WORDS = [...Object.keys(JITTERS), ...Object.keys(BACKOFFS), "immediate"];

export function addCompare(command: Command, fallback: readonly string[]): Command {
  const text = `strategies, presets or catalogue entries, at most ${MOST}`;
  return command
    .addOption(
      new Option("--compare <list>", text)
        .argParser((list) => list.split(",").map((name) => name.trim()))
        .default(fallback, fallback.join(",")),
    )
    .option("--policy <file>", "a policy document to put beside them; - is standard input");
}

/** In the order asked for; a policy file comes last. */
export function chooseStrategies(
  flags: StrategyFlags,
  defaults: PolicyDocument,
): readonly PolicyChoice[] {
  const curve = curveDocument(flags, defaults);
  const named = (flags.compare ?? []).map((name) => strategy(name, curve));
  const chosen = [...named, ...(flags.policy === undefined ? [] : [policyFile(flags.policy)])];
  if (chosen.length <= MOST) return chosen;
  const text = `--compare must name at most ${MOST} strategies, got ${chosen.length}`;
  throw new RedriveError("INVALID_ARGUMENT", text);
}

function strategy(name: string, curve: PolicyDocument): PolicyChoice {
  const document = documentFor(name, curve);
  if (document !== undefined) return { name, document, guards: {}, shared: document };
  const known = [...WORDS, ...policyNames()];
  if (known.includes(name)) return namedPolicy(name);
  const hint = didYouMean(name, known) || ` Strategies: ${WORDS.join(", ")}.`;
  throw new RedriveError("INVALID_ARGUMENT", `--compare: unknown strategy ${quote(name)}.${hint}`);
}

function documentFor(name: string, curve: PolicyDocument): PolicyDocument | undefined {
  if (name === "immediate") return IMMEDIATE;
  const jitterType = Object.hasOwn(JITTERS, name) ? JITTERS[name] : undefined;
  if (jitterType !== undefined) return { ...curve, jitterType };
  const backoff = Object.hasOwn(BACKOFFS, name) ? BACKOFFS[name] : undefined;
  return backoff && { ...curve, backoff, jitterType: "NONE" };
}
