/**
 * Policy choice: the policy that a command works on: a preset or catalog entry by name, a file, or
 * a curve from flags. Exactly one of the three. Core fills in the fields that a curve omits.
 */
import {
  type BackoffKind,
  causedError,
  DocumentError,
  isObject,
  type JitterType,
  type PolicyDocument,
  preset,
  presets,
  quote,
  RedriveError,
  resolveDestination,
  resolvePolicy,
} from "@redrive/core";
import { catalog, type DestinationParts } from "@redrive/core/interop";
import type { SharedPolicy } from "@redrive/simulator/share";
import { type Command, Option } from "commander";
import { readJson, withFileName } from "./documents.ts";
import { choiceFlag, didYouMean, durationFlag, integerFlag, numberFlag } from "./flags.ts";

export interface PolicyFlags {
  readonly preset?: string;
  readonly policyFile?: string;
  readonly full?: boolean;
  readonly equal?: boolean;
  readonly decorrelated?: boolean;
  readonly proportional?: boolean;
  readonly none?: boolean;
  readonly backoff?: "exponential" | "linear" | "fixed";
  readonly base?: number;
  readonly cap?: number;
  readonly attempts?: number;
  readonly multiplier?: number;
  readonly total?: number;
}

export interface PolicyChoice {
  readonly name: string;
  readonly document: PolicyDocument;
  /** The guards of a destination document. */
  readonly guards: DestinationParts;
  /** For links: the name if the policy is a preset or a catalog entry, else the document. */
  readonly shared: SharedPolicy;
}

/** A note for a command that simulates no guards; none if the document has none. */
export function ignoredGuards(choices: readonly PolicyChoice[]): readonly string[] {
  return choices.flatMap(({ name, guards }) => {
    const names = Object.keys(guards).join(", ");
    return names === "" ? [] : [`${name}: its guards (${names}) have no effect here`];
  });
}

const JITTERS = ["full", "equal", "decorrelated", "proportional", "none"] as const;
const CURVE = ["base", "cap", "attempts", "multiplier", "backoff", "total"] as const;

/** The flag that sets each field of a curve, for error messages. */
const FLAG_BY_FIELD: Readonly<Record<string, string>> = {
  initialDelayMs: "--base",
  maxDelayMs: "--cap",
  maxAttempts: "--attempts",
  multiplier: "--multiplier",
  backoff: "--backoff",
  jitterType: "the jitter",
  totalBudgetMs: "--total",
};

export function addPolicyFlags(command: Command): Command {
  const curve = [...JITTERS, ...CURVE];
  return command
    .addOption(
      new Option("--preset <name>", "a preset or a catalog entry").conflicts([
        "policyFile",
        ...curve,
      ]),
    )
    .addOption(
      new Option(
        "--policy-file <file>",
        "a policy or destination document; - reads standard input",
      ).conflicts([...curve]),
    );
}

/** Adds one flag per jitter type, as in `--full --base 200ms`. */
export function addJitterFlags(command: Command): Command {
  for (const jitter of JITTERS) {
    const others = JITTERS.filter((other) => other !== jitter);
    const text = jitter === "none" ? "no jitter" : `${jitter} jitter`;
    command.addOption(new Option(`--${jitter}`, text).conflicts([...others]));
  }
  return command;
}

export function addCurveFlags(command: Command): Command {
  return command
    .option("--base <duration>", "maximum wait after the first failure", durationFlag)
    .option("--cap <duration>", "upper limit of every wait", durationFlag)
    .option(
      "-n, --attempts <count>",
      "maximum number of calls, including the first",
      integerFlag(1, 1000),
    )
    .option("--multiplier <factor>", "growth factor from one wait to the next", numberFlag(1, 10))
    .option(
      "--backoff <kind>",
      "exponential, linear or fixed",
      choiceFlag("exponential", "linear", "fixed"),
    )
    .option("--total <duration>", "time limit for all attempts and waits together", durationFlag);
}

/** Returns the chosen policy. Without flags: the preset `default`. */
export function choosePolicy(flags: PolicyFlags): PolicyChoice {
  if (flags.preset !== undefined) return namedPolicy(flags.preset);
  if (flags.policyFile !== undefined) return policyFromFile(flags.policyFile);
  const isCurve = [...JITTERS, ...CURVE].some((name) => flags[name] !== undefined);
  if (!isCurve) return namedPolicy("default");
  const document = curveDocument(flags);
  return { name: "your curve", document, guards: {}, shared: document };
}

/** Builds a policy document from flags, on top of a command's defaults. Errors name the flags. */
export function curveDocument(flags: PolicyFlags, defaults: PolicyDocument = {}): PolicyDocument {
  const jitter = JITTERS.find((name) => flags[name]);
  const given: PolicyDocument = {
    ...(jitter && { jitterType: jitter.toUpperCase() as JitterType }),
    ...(flags.backoff && { backoff: flags.backoff.toUpperCase() as BackoffKind }),
    ...(flags.base !== undefined && { initialDelayMs: flags.base }),
    ...(flags.cap !== undefined && { maxDelayMs: flags.cap }),
    ...(flags.attempts !== undefined && { maxAttempts: flags.attempts }),
    ...(flags.multiplier !== undefined && { multiplier: flags.multiplier }),
    ...(flags.total !== undefined && { totalBudgetMs: flags.total }),
  };
  const document = { ...defaults, ...given };
  assertCurve(document);
  return document;
}

function assertCurve(document: PolicyDocument): void {
  try {
    resolvePolicy(document);
  } catch (cause) {
    if (!(cause instanceof DocumentError)) throw cause;
    const messages = cause.problems.map(
      ({ field, message }) => `${FLAG_BY_FIELD[field] ?? field}: ${message}`,
    );
    throw causedError("INVALID_ARGUMENT", messages.join("; "), cause);
  }
}

/** Finds a preset or a catalog entry by name. */
export function namedPolicy(name: string): PolicyChoice {
  if (Object.hasOwn(presets, name)) {
    return { name, document: preset(name), guards: {}, shared: name };
  }
  const entry = catalog.find(({ id }) => id === name);
  if (entry !== undefined) {
    return { name, document: entry.policy, guards: entry.destination, shared: name };
  }
  const near = didYouMean(name, policyNames());
  const hint =
    near || ` Presets: ${Object.keys(presets).join(", ")}. List all with: redrive policies catalog`;
  throw new RedriveError("INVALID_ARGUMENT", `unknown preset ${quote(name)}.${hint}`);
}

export function policyNames(): readonly string[] {
  return [...Object.keys(presets), ...catalog.map(({ id }) => id)];
}

/** Reads a policy document, or a destination document with its guards. */
export function policyFromFile(path: string): PolicyChoice {
  const read = readJson(path);
  const isDestination = isObject(read) && "policy" in read;
  const { policy: inner, ...guards } = isDestination ? read : { policy: read };
  withFileName(path, () => isDestination && resolveDestination(read, "simulator"));
  if (typeof inner === "string") return { ...namedPolicy(inner), guards };
  const document = inner as PolicyDocument;
  withFileName(path, () => resolvePolicy(document));
  return { name: document.policyId ?? path, document, guards, shared: document };
}
