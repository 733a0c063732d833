/**
 * Share: a run of the simulator as the part of a link after `#`, and back. Pure, and without Node,
 * so that the web page can use the very same file. The form is `1.` (the version) and base64url of
 * JSON, in which every known key is replaced by the letters of its place in `KEYS`; see docs/cli.md.
 */
import { isObject, type PolicyDocument } from "@redrive/core";
import type { Answers } from "../advise/questions.ts";
import type { ScenarioDocument } from "../scenario/scenario-document.ts";
import { fromBase64Url, toBase64Url } from "./base64-url.ts";

/** A document, or the name of a preset or of an entry of the catalogue. */
export type SharedPolicy = PolicyDocument | string;

/** One of several policies that are compared, with the name it is shown by. */
export interface SharedStrategy {
  readonly name: string;
  readonly policy: SharedPolicy;
}

/** A view of the web page and what it is to show. Documents in it are checked where they are used. */
export type SharedRun =
  | {
      readonly view: "curve";
      readonly seed: number | string;
      readonly policy: SharedPolicy;
      readonly outageMs?: number;
      /** Every answer carries this hint. */
      readonly retryAfterMs?: number;
      /** Waits are drawn on a logarithmic scale. */
      readonly log?: boolean;
    }
  | {
      readonly view: "herd";
      readonly seed: number | string;
      readonly strategies: readonly SharedStrategy[];
      readonly clients: number;
      readonly windowMs: number;
      /** Each strategy is drawn on a scale of its own. */
      readonly ownScales?: boolean;
    }
  | {
      readonly view: "system";
      readonly seed: number | string;
      /** Documents, or names of scenarios that ship. */
      readonly scenarios: readonly (ScenarioDocument | string)[];
      /** Place of the one on the stage. Default: the first. */
      readonly shown?: number;
      /** Drawn behind it: nothing, or another of the list by its place. Default: the same without guards. */
      readonly ghost?: "none" | "unguarded" | number;
    }
  | { readonly view: "labs"; readonly seed: number | string; readonly ids: readonly string[] }
  | { readonly view: "advisor"; readonly answers: Answers };

/** What a link holds: a run, or what is wrong with it in a sentence. */
export type Decoded = { readonly run: SharedRun } | { readonly problem: string };

const VERSION = "1";

/** Browsers and chat programs cut longer links. */
const MAX_CHARACTERS = 32_768;

/** Keys by place. Append only: links that are out there hold the places. */
const KEYS =
  `view seed policy outageMs strategies name clients windowMs scenarios ids answers policyId description
  maxAttempts backoff initialDelayMs multiplier maxDelayMs jitterType jitterRatio delaysMs totalBudgetMs
  attemptTimeoutMs connectTimeoutMs minCallMs retryableStatusCodes retryableGrpcCodes retryableErrors
  throttleDelayMs requireIdempotencyKey respectRetryAfter maxRetryAfterMs retryBudget breaker concurrency
  rate hedge idempotent kind ratio minPerSecond maxTokens tokenRatio costPerRetry costPerThrottle
  refillPerSuccess failureRate slowCallMs slowRate minCalls openMs maxOpenMs halfOpenProbes max maxRetries
  queue algorithm perSecond burst adaptive throttle after endpoints world horizonMs guards patience tiers
  timeline count ratePerSecond untilMs jobs think startSpreadMs destination breakerPerShard server
  capacityPerSecond service queueMs discipline dropsExpired latency perCallMs hop shards retryAfterMs atMs
  forMs mode share factor ramp warmMs tier shard clientCount workers work visibilityMs maxReceives
  poisonShare crashesPerSecond commitMs medianMs meanMs sigma transient minimumWait background waits
  log ownScales`.split(/\s+/u);

/** Letters only: keys that look like numbers would change places in an object. */
const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

const SHORT_KEYS: ReadonlyMap<string, string> = new Map(
  KEYS.map((key, place) => [key, lettersOf(place)]),
);
const LONG_KEYS: ReadonlyMap<string, string> = new Map(
  KEYS.map((key, place) => [lettersOf(place), key]),
);

/** a to Z, then aa, ab and on. */
function lettersOf(place: number): string {
  const letter = LETTERS.charAt(place % LETTERS.length);
  const rest = Math.floor(place / LETTERS.length);
  return rest === 0 ? letter : lettersOf(rest - 1) + letter;
}

/** Marks a key that is written out. */
const WRITTEN_OUT = "_";

/** The part after `#`; only characters that need no escaping. */
export function encodeRun(run: SharedRun): string {
  return `${VERSION}.${toBase64Url(JSON.stringify(renamed(run, shortKey)))}`;
}

/** The address of a page that shows the run. */
export function linkTo(pagesUrl: string, run: SharedRun): string {
  const base = pagesUrl.endsWith("/") ? pagesUrl : `${pagesUrl}/`;
  return `${base}simulator#${encodeRun(run)}`;
}

/** Reads what `encodeRun` wrote, with or without its `#`. Anything else is a problem, never a throw. */
export function decodeRun(hash: string): Decoded {
  const text = hash.replace(/^#/u, "");
  const cut = text.indexOf(".");
  const version = text.slice(0, Math.max(0, cut));
  if (text.length > MAX_CHARACTERS) return { problem: "the link is too long" };
  if (!/^\d{1,4}$/u.test(version)) return { problem: "the link holds no run" };
  if (version !== VERSION) return { problem: `the link is of version ${version}, not ${VERSION}` };
  const value = parsed(text.slice(cut + 1));
  return isRun(value) ? { run: value } : { problem: "the link is damaged or incomplete" };
}

function parsed(body: string): unknown {
  try {
    return renamed(JSON.parse(fromBase64Url(body)), longKey);
  } catch {
    return undefined;
  }
}

function renamed(value: unknown, rename: (key: string) => string): unknown {
  if (Array.isArray(value)) return value.map((entry) => renamed(entry, rename));
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, part]) => [rename(key), renamed(part, rename)]);
  return Object.fromEntries(entries);
}

function shortKey(key: string): string {
  return SHORT_KEYS.get(key) ?? WRITTEN_OUT + key;
}

/** Letters that nobody knows stay as they are, and are then no field of anything. */
function longKey(key: string): string {
  if (key.startsWith(WRITTEN_OUT)) return key.slice(WRITTEN_OUT.length);
  return LONG_KEYS.get(key) ?? key;
}

type Check = (run: Readonly<Record<string, unknown>>) => boolean;

const isPolicy = (value: unknown) => typeof value === "string" || isObject(value);

/** As much as the views need to start; documents are looked into by core and the simulator. */
const CHECKS: Readonly<Record<SharedRun["view"], Check>> = {
  curve: ({ policy, outageMs, retryAfterMs, log }) =>
    isPolicy(policy) &&
    isNumberOrAbsent(outageMs) &&
    isNumberOrAbsent(retryAfterMs) &&
    isFlagOrAbsent(log),
  herd: ({ strategies, clients, windowMs, ownScales }) =>
    isListOf(strategies, (one) => isObject(one) && isPolicy(one["policy"])) &&
    typeof clients === "number" &&
    typeof windowMs === "number" &&
    isFlagOrAbsent(ownScales),
  system: ({ scenarios }) => isListOf(scenarios, isPolicy),
  labs: ({ ids }) => isListOf(ids, (id) => typeof id === "string"),
  advisor: ({ answers }) => isObject(answers),
};

function isRun(value: unknown): value is SharedRun {
  if (!isObject(value) || typeof value["view"] !== "string") return false;
  if (!Object.hasOwn(CHECKS, value["view"])) return false;
  const seed = typeof value["seed"];
  const hasSeed = seed === "number" || seed === "string" || value["view"] === "advisor";
  return hasSeed && CHECKS[value["view"] as SharedRun["view"]](value);
}

function isListOf(value: unknown, isOne: (entry: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isOne);
}

function isFlagOrAbsent(value: unknown): boolean {
  return value === undefined || typeof value === "boolean";
}

function isNumberOrAbsent(value: unknown): boolean {
  return value === undefined || typeof value === "number";
}
