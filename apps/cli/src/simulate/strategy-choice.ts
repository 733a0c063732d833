/** Strategy choice: the policies that a command compares: strategies, presets, catalog entries or a file. */
import { type PolicyDocument, quote, RedriveError } from "@redrive/core";
import {
  assertStrategyCount,
  MAX_STRATEGIES,
  strategyDocument,
  strategyNames,
} from "@redrive/simulator";
import { type Command, Option } from "commander";
import { didYouMean } from "../input/flags.ts";
import {
  curveDocument,
  namedPolicy,
  type PolicyChoice,
  type PolicyFlags,
  policyFromFile,
  policyNames,
} from "../input/policy-choice.ts";

export interface StrategyFlags extends PolicyFlags {
  readonly compare?: readonly string[];
}

export function addCompareFlags(command: Command, fallback: readonly string[]): Command {
  const text = `strategies, presets or catalog entries to compare, at most ${MAX_STRATEGIES}`;
  return command
    .addOption(
      new Option("--compare <list>", text)
        .argParser((list) => list.split(",").map((name) => name.trim()))
        .default(fallback, fallback.join(",")),
    )
    .option("--policy-file <file>", "also compare this policy document; - reads standard input");
}

/** Returns the strategies in the order of `--compare`, then the policy file. */
export function chooseStrategies(
  flags: StrategyFlags,
  defaults: PolicyDocument,
): readonly PolicyChoice[] {
  const curve = curveDocument(flags, defaults);
  const named = (flags.compare ?? []).map((name) => strategy(name, curve));
  const chosen = [
    ...named,
    ...(flags.policyFile === undefined ? [] : [policyFromFile(flags.policyFile)]),
  ];
  assertStrategyCount("--compare", chosen.length);
  return chosen;
}

function strategy(name: string, curve: PolicyDocument): PolicyChoice {
  const document = strategyDocument(name, curve);
  if (document !== undefined) return { name, document, guards: {}, shared: document };
  const known = [...strategyNames, ...policyNames()];
  if (known.includes(name)) return namedPolicy(name);
  const hint = didYouMean(name, known) || ` Strategies: ${strategyNames.join(", ")}.`;
  throw new RedriveError("INVALID_ARGUMENT", `--compare: unknown strategy ${quote(name)}.${hint}`);
}
