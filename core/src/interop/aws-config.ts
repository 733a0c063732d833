/**
 * AWS config: reads and writes the two retry settings of `~/.aws/config`, `retry_mode` and
 * `max_attempts`. A mode is a name for constants; they are those of the catalog since retry behavior
 * 2.1. Notes report what a mode cannot express.
 */

import { nearestName } from "../documents/nearest-name.ts";
import { quote } from "../errors/assert.ts";
import { RedriveError } from "../errors/errors.ts";
import { power } from "../policy/backoff.ts";
import { type Policy, type PolicyDocument, resolvePolicy } from "../policy/policy.ts";
import { awsAdaptive, awsLegacy, awsStandard } from "./catalog/aws.ts";
import type { CatalogEntry } from "./catalog/entry.ts";
import {
  addLostNote,
  clampWithNote,
  type DestinationParts,
  type Imported,
  imported,
  readText,
  refuse,
} from "./config-reader.ts";
import { type IniSection, parseIni } from "./ini.ts";

export type AwsRetryMode = "legacy" | "standard" | "adaptive";

export interface AwsTarget {
  /** The profile to read or write. Default: `default`. */
  readonly profile?: string;
}

export interface AwsExport {
  /** One section of `~/.aws/config`. */
  readonly text: string;
  /** Full sentences about what was changed or lost. */
  readonly notes: readonly string[];
}

const MODES: Readonly<Record<AwsRetryMode, CatalogEntry>> = {
  legacy: awsLegacy,
  standard: awsStandard,
  adaptive: awsAdaptive,
};

const MAX_DELAY_MS = 30 * 86_400_000;

/** Reads the retry settings of one profile from the text of `~/.aws/config`. */
export function importAws(text: unknown, { profile = "default" }: AwsTarget = {}): Imported {
  const notes: string[] = [];
  const settings = findProfile(readText(text, "the AWS config"), profile, notes);
  const mode = readMode(settings.get("retry_mode"), notes);
  const { policy, destination, differs } = MODES[mode];
  const maxAttempts = readAttempts(settings.get("max_attempts"), policy.maxAttempts ?? 1, notes);
  const { policyId: _, description: __, ...constants } = policy;
  const cap = mode === "legacy" ? { maxDelayMs: legacyLastDelayMs(maxAttempts) } : {};
  const { retryBudget = false, rate = false } = destination;
  return imported({ ...constants, maxAttempts, ...cap }, { retryBudget, rate }, [
    ...notes,
    ...differs,
  ]);
}

/** Legacy doubles from 1 s without a cap, so the last wait is the cap. */
function legacyLastDelayMs(maxAttempts: number): number {
  return Math.min(MAX_DELAY_MS, 1000 * power(2, maxAttempts - 2));
}

/** `[profile x]`, where x may be in quotes; `default` is also written without the word `profile`. */
function findProfile(text: string, profile: string, notes: string[]): IniSection {
  const found = new Map<string, IniSection>();
  for (const [heading, section] of parseIni(text)) {
    const name = /^profile\s+(?:"([^"]*)"|(.*))$/.exec(heading);
    if (heading === "default" && !found.has("default")) found.set("default", section);
    if (name !== null) found.set(name[1] ?? name[2] ?? "", section);
  }
  const section = found.get(profile);
  if (section !== undefined) return section;
  if (profile !== "default") refuseProfile(profile, [...found.keys()]);
  notes.push("The file has no [default] section, so AWS's own defaults apply.");
  return new Map();
}

function refuseProfile(profile: string, known: readonly string[]): never {
  const near = nearestName(profile, known);
  const hint = near === undefined ? "" : `, did you mean ${quote(near)}?`;
  throw new RedriveError("INVALID_IMPORT", `the file has no profile ${quote(profile)}${hint}`);
}

function readMode(value: string | undefined, notes: string[]): AwsRetryMode {
  if (value === undefined) {
    notes.push("The profile has no retry_mode; standard is the default since 2.1.");
    return "standard";
  }
  return Object.hasOwn(MODES, value)
    ? (value as AwsRetryMode)
    : refuse("retry_mode", "legacy, standard or adaptive", value);
}

function readAttempts(value: string | undefined, fallback: number, notes: string[]): number {
  if (value === undefined) return fallback;
  if (!/^\d{1,9}$/.test(value) || Number(value) === 0) {
    refuse("max_attempts", "a whole number of at least 1", value);
  }
  return clampWithNote(notes, "max_attempts", Number(value), [1, 1000]);
}

/** Writes the section of one profile; throws only for a bad policy. */
export function exportAws(
  document: PolicyDocument,
  destination: DestinationParts = {},
  { profile = "default" }: AwsTarget = {},
): AwsExport {
  const policy = resolvePolicy(document);
  const mode = modeOf(policy, destination);
  const notes: string[] = [];
  noteConstants(notes, mode, policy);
  noteBudget(notes, mode, destination);
  addLostNote(notes, "AWS", destination, ["description", "retryBudget", "rate"]);
  addLostNote(notes, "AWS's rate", destination.rate || {}, ["adaptive"]);
  const heading = profile === "default" ? "default" : `profile ${quoteName(profile)}`;
  const lines = [`[${heading}]`, `retry_mode = ${mode}`, `max_attempts = ${policy.maxAttempts}`];
  return { text: `${lines.join("\n")}\n`, notes };
}

function quoteName(profile: string): string {
  if (/^[\w.@%+:/-]+$/.test(profile)) return profile;
  if (/^[^\]"\r\n]+$/.test(profile)) return `"${profile}"`;
  const wanted = "a name without brackets, quotes and line breaks";
  throw new RedriveError("INVALID_ARGUMENT", `profile must be ${wanted}, got ${quote(profile)}`);
}

/** Legacy only for an exact match, because it is the only mode without a retry quota. */
function modeOf(policy: Policy, { rate, retryBudget }: DestinationParts): AwsRetryMode {
  if (typeof rate === "object" && rate.adaptive) return "adaptive";
  const isLegacy = retryBudget === false && changedFields(policy, "legacy").length === 0;
  return isLegacy ? "legacy" : "standard";
}

/** Names of the policy's fields for which the mode has another value. */
function changedFields(policy: Policy, mode: AwsRetryMode): readonly string[] {
  const { maxAttempts } = policy;
  const cap = mode === "legacy" ? { maxDelayMs: legacyLastDelayMs(maxAttempts) } : {};
  const constants: Policy = resolvePolicy({ ...MODES[mode].policy, maxAttempts, ...cap });
  const names = new Set([...Object.keys(policy), ...Object.keys(constants)]) as Set<keyof Policy>;
  return [...names]
    .filter((name) => name !== "policyId" && name !== "description")
    .filter((name) => JSON.stringify(policy[name]) !== JSON.stringify(constants[name]));
}

function noteConstants(notes: string[], mode: AwsRetryMode, policy: Policy): void {
  const changed = changedFields(policy, mode).join(", ");
  if (changed !== "") notes.push(`AWS's ${mode} mode has its own ${changed}.`);
}

function noteBudget(notes: string[], mode: AwsRetryMode, { retryBudget }: DestinationParts): void {
  const own = MODES[mode].destination.retryBudget;
  if (retryBudget === undefined || retryBudget === own) return;
  const isOwn = JSON.stringify({ ...own, ...retryBudget }) === JSON.stringify(own);
  if (retryBudget !== false && isOwn) return;
  notes.push(`AWS's ${mode} mode has its own retry budget: 500 tokens, 14 per retry.`);
}
