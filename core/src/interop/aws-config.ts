/**
 * AWS config: reads and writes the two retry settings of `~/.aws/config`, `retry_mode` and
 * `max_attempts`. A mode is a name for constants: those of retry behavior 2.1, which are also entries of the
 * catalog. Notes report what a mode cannot express.
 */
import { power } from "../decide/backoff.ts";
import { type Policy, type PolicyDocument, resolvePolicy } from "../decide/policy.ts";
import { quote, RedriveError } from "../documents/errors.ts";
import { nearestName } from "../documents/nearest-name.ts";
import { type CatalogEntry, entry, UNBOUNDED, unbounded } from "./catalog-entry.ts";
import {
  addLostNote,
  clampWithNote,
  type DestinationParts,
  type Imported,
  imported,
  readText,
  refuse,
} from "./config-reader.ts";

export type AwsRetryMode = "legacy" | "standard" | "adaptive";

export interface AwsTarget {
  /** The profile to read or write. Default: `default`. */
  readonly profile?: string;
}

interface AwsExport {
  /** One section of `~/.aws/config`. */
  readonly text: string;
  /** Full sentences about what was changed or lost. */
  readonly notes: readonly string[];
}

// The defaults of the AWS SDKs: the three modes, before and since "retry behavior 2.1" of November 2026.

const SEEN = "2026-11-15";

const ERROR_CODES =
  "The SDK also reads the error code in the body (for example ThrottlingException with status 400); a policy only reads the status.";
const EVERY_METHOD =
  "The SDK repeats every operation, including POST; Redrive repeats a POST only with an idempotency key or if it is declared idempotent.";
const BOUNDED_HINT =
  "The SDK limits Retry-After to between its own wait and 5 s more; Redrive waits as long as the server asks.";
const DYNAMODB =
  "DynamoDB has 4 attempts and a base of 25 ms since 2.1; these are the figures of the other services.";
const PYTHON_BASE =
  "The Python SDK waited from a base of 1 s, throttled or not; these are the figures of the JavaScript SDK.";
const HALVES =
  "The SDK measures its rate in half seconds and also slows first attempts; the destination's `rate.adaptive` does both.";

const standardPolicy = {
  ...UNBOUNDED,
  maxAttempts: 3,
  initialDelayMs: 50,
  throttleDelayMs: 1000,
  maxDelayMs: 20_000,
  retryableStatusCodes: [429, 500, 502, 503, 504],
  retryableErrors: ["timeout", "connect", "reset", "dns"],
} as const;

const standardBudget = {
  kind: "TOKENS",
  maxTokens: 500,
  costPerRetry: 14,
  costPerThrottle: 5,
  refillPerSuccess: 1,
} as const;

export const awsStandard: CatalogEntry = entry({
  id: "aws-standard",
  title: "AWS SDK, standard mode",
  version: "retry behavior 2.1",
  date: SEEN,
  source: "@smithy/core@3.40.0 dist-es/submodules/retry/util-retry/StandardRetryStrategy.js",
  policy: standardPolicy,
  destination: { retryBudget: standardBudget },
  differs: [BOUNDED_HINT, ERROR_CODES, EVERY_METHOD, DYNAMODB, unbounded("The SDK")],
});

export const awsAdaptive: CatalogEntry = entry({
  id: "aws-adaptive",
  title: "AWS SDK, adaptive mode",
  version: "retry behavior 2.1",
  date: SEEN,
  source: "@smithy/core@3.40.0 dist-es/submodules/retry/util-retry/AdaptiveRetryStrategy.js",
  policy: standardPolicy,
  destination: { retryBudget: standardBudget, rate: { adaptive: true } },
  differs: [HALVES, BOUNDED_HINT, ERROR_CODES, EVERY_METHOD, DYNAMODB, unbounded("The SDK")],
});

const beforePolicy = { ...standardPolicy, initialDelayMs: 100, throttleDelayMs: 500 } as const;
const beforeBudget = { ...standardBudget, costPerRetry: 10 } as const;

const awsStandardBefore: CatalogEntry = entry({
  id: "aws-standard-before-2.1",
  title: "AWS SDK, standard mode",
  version: "before retry behavior 2.1",
  date: SEEN,
  source: "@smithy/core@3.30.0 dist-es/submodules/retry/util-retry/retries-2026-config.js",
  policy: beforePolicy,
  destination: { retryBudget: beforeBudget },
  differs: [PYTHON_BASE, BOUNDED_HINT, ERROR_CODES, EVERY_METHOD, unbounded("The SDK")],
});

const awsAdaptiveBefore: CatalogEntry = entry({
  id: "aws-adaptive-before-2.1",
  title: "AWS SDK, adaptive mode",
  version: "before retry behavior 2.1",
  date: SEEN,
  source: "@smithy/core@3.30.0 dist-es/submodules/retry/util-retry/AdaptiveRetryStrategy.js",
  policy: beforePolicy,
  destination: { retryBudget: beforeBudget, rate: { adaptive: true } },
  differs: [HALVES, PYTHON_BASE, BOUNDED_HINT, ERROR_CODES, EVERY_METHOD, unbounded("The SDK")],
});

export const awsLegacy: CatalogEntry = entry({
  id: "aws-legacy",
  title: "AWS SDK for Python and AWS CLI, legacy mode",
  version: "botocore 1.43.107",
  date: SEEN,
  source: "botocore@1.43.107 botocore/data/_retry.json and botocore/retryhandler.py",
  policy: {
    ...UNBOUNDED,
    maxAttempts: 5,
    initialDelayMs: 1000,
    maxDelayMs: 8000,
    retryableStatusCodes: [429, 500, 502, 503, 504, 509],
    retryableErrors: ["timeout", "connect", "reset", "dns"],
    respectRetryAfter: false,
  },
  differs: [
    "Legacy has no cap: 8 s is the ceiling of its last wait, so it is the cap here.",
    "Legacy differs between SDKs, and DynamoDB has ten attempts from a base of 50 ms without jitter.",
    "The SDK limits connecting and each idle time of the socket to 60 s, not the attempt or the call.",
    ERROR_CODES,
    EVERY_METHOD,
  ],
});

export const awsEntries: readonly CatalogEntry[] = [
  awsLegacy,
  awsStandardBefore,
  awsStandard,
  awsAdaptiveBefore,
  awsAdaptive,
];

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

// The file format of `~/.aws/config`: sections, `name = value`, comments, and nested blocks, which are
// indented and ignored.

/** Names are in lower case. If a value is given twice, the last one counts. */
type IniSection = ReadonlyMap<string, string>;

/** A larger file is not a configuration. */
const MAX_CHARACTERS = 1_000_000;

/** Sections by their heading, as written between the brackets. */
export function parseIni(text: string): ReadonlyMap<string, IniSection> {
  if (text.length > MAX_CHARACTERS) {
    fail(`the file must have at most ${MAX_CHARACTERS} characters, got ${text.length}`);
  }
  const sections = new Map<string, Map<string, string>>();
  let current: Map<string, string> | undefined;
  text.split(/\r\n|[\r\n]/).forEach((line, index) => {
    const heading = /^\[([^\]]*)\]\s*([#;].*)?$/.exec(line)?.[1]?.trim();
    if (heading !== undefined) {
      current = sections.get(heading) ?? new Map();
      sections.set(heading, current);
    } else if (!isPassedOver(line)) {
      addValue(current, line, index + 1);
    }
  });
  return sections;
}

/** Blank lines, comments, and indented lines, which belong to the value above. */
function isPassedOver(line: string): boolean {
  return /^(\s|[#;]|$)/.test(line);
}

function addValue(section: Map<string, string> | undefined, line: string, number: number): void {
  const equals = line.indexOf("=");
  if (equals < 1) fail(`line ${number} must be a [section] or name = value, got ${quote(line)}`);
  if (section === undefined) fail(`line ${number} must come after a [section], got ${quote(line)}`);
  const name = line.slice(0, equals).trim().toLowerCase();
  // A comment after a value needs a blank before it; otherwise it is part of the value.
  const value = line.slice(equals + 1).replace(/\s[#;].*$/, "");
  section.set(name, value.trim());
}

function fail(message: string): never {
  throw new RedriveError("INVALID_IMPORT", message);
}
