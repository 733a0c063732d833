/**
 * Policy choice: which policy a command is about: a preset or an entry of the catalogue by name, a
 * file, or a curve given by flags. One of the three; the flags of a curve leave the rest to core.
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
  readonly policy?: string;
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
  /** What stands beside the policy in a destination document. */
  readonly guards: DestinationParts;
  /** By name where it has one that others know. */
  readonly shared: SharedPolicy;
}

const JITTERS = ["full", "equal", "decorrelated", "proportional", "none"] as const;
const CURVE = ["base", "cap", "attempts", "multiplier", "backoff", "total"] as const;

/** Where each field of the curve comes from, for messages. */
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
      new Option("--preset <name>", "a policy that ships, or one of the catalogue").conflicts([
        "policy",
        ...curve,
      ]),
    )
    .addOption(
      new Option(
        "--policy <file>",
        "a policy or destination document; - is standard input",
      ).conflicts([...curve]),
    );
}

/** The jitter by a flag of its own, as in `--full --base 200ms`. */
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
    .option("--base <span>", "longest wait after the first failure", durationFlag)
    .option("--cap <span>", "no wait is drawn from a longer one", durationFlag)
    .option("-n, --attempts <count>", "calls in all, the first too", integerFlag(1, 1000))
    .option("--multiplier <factor>", "growth from wait to wait", numberFlag(1, 10))
    .option(
      "--backoff <kind>",
      "exponential, linear or fixed",
      choiceFlag("exponential", "linear", "fixed"),
    )
    .option("--total <span>", "all attempts and waits together", durationFlag);
}

/** The policy that was asked for; without any flag the preset `default`. */
export function choosePolicy(flags: PolicyFlags): PolicyChoice {
  if (flags.preset !== undefined) return namedPolicy(flags.preset);
  if (flags.policy !== undefined) return policyFromFile(flags.policy);
  const isCurve = [...JITTERS, ...CURVE].some((name) => flags[name] !== undefined);
  if (!isCurve) return namedPolicy("default");
  const document = curveDocument(flags);
  return { name: "your curve", document, guards: {}, shared: document };
}

/** The flags as a document, over the defaults of a command; refusals name the flags. */
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
    const told = cause.problems.map(
      ({ field, message }) => `${FLAG_BY_FIELD[field] ?? field}: ${message}`,
    );
    throw causedError("INVALID_ARGUMENT", told.join("; "), cause);
  }
}

/** A preset, or else an entry of the catalogue. */
export function namedPolicy(name: string): PolicyChoice {
  if (Object.hasOwn(presets, name)) {
    return { name, document: preset(name), guards: {}, shared: name };
  }
  const entry = catalog.find(({ id }) => id === name);
  if (entry !== undefined) {
    return { name, document: entry.policy, guards: entry.destination, shared: name };
  }
  const near = didYouMean(name, policyNames());
  const hint = near || ` Presets: ${Object.keys(presets).join(", ")}; redrive policies catalogue.`;
  throw new RedriveError("INVALID_ARGUMENT", `unknown preset ${quote(name)}.${hint}`);
}

export function policyNames(): readonly string[] {
  return [...Object.keys(presets), ...catalog.map(({ id }) => id)];
}

/** A policy document, or a destination document with its guards. */
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
