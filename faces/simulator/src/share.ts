/**
 * The public API of `@redrive/simulator/share`: converts a run of the simulator to the part of a
 * link after `#`, and back. It needs no Node, so the web page uses the same file. The format is
 * `1.` (the version) and base64url of JSON, in which letters replace every known key by its
 * position in `KEYS`; see docs/cli.md.
 */
import { isObject, type PolicyDocument } from "@redrive/core";
import type { Answers } from "./advise.ts";
import type { ScenarioDocument } from "./scenario/scenario-document.ts";

/** A document, or the name of a preset or of a catalog entry. */
export type SharedPolicy = PolicyDocument | string;

/** One of several policies to compare, with its display name. */
export interface SharedStrategy {
  readonly name: string;
  readonly policy: SharedPolicy;
}

/** A view of the web page and what it shows. Documents in it are checked where they are used. */
export type SharedRun =
  | {
      readonly view: "curve";
      readonly seed: number | string;
      readonly policy: SharedPolicy;
      readonly outageMs?: number;
      /** The Retry-After of every response. */
      readonly retryAfterMs?: number;
      /** Draws the waits on a logarithmic scale. Default: true. */
      readonly log?: boolean;
    }
  | {
      readonly view: "herd";
      readonly seed: number | string;
      readonly strategies: readonly SharedStrategy[];
      readonly clients: number;
      readonly windowMs: number;
      /** Draws each strategy on its own scale. */
      readonly ownScales?: boolean;
    }
  | {
      readonly view: "system";
      readonly seed: number | string;
      /** Documents, or names of the package's scenarios. */
      readonly scenarios: readonly (ScenarioDocument | string)[];
      /** Index of the scenario that is shown. Default: the first. */
      readonly shown?: number;
      /**
       * What is drawn behind it: nothing, or another scenario by its index. Default: the same one
       * without guards.
       */
      readonly ghost?: "none" | "unguarded" | number;
    }
  | { readonly view: "labs"; readonly seed: number | string; readonly ids: readonly string[] }
  | { readonly view: "advisor"; readonly answers: Answers };

/** The content of a link: a run, or a message about its problem. */
export type Decoded = { readonly run: SharedRun } | { readonly problem: string };

const VERSION = "1";

/** Browsers and chat programs truncate longer links. */
const MAX_CHARACTERS = 32_768;

/** Keys by position. Append only, because existing links contain positions. */
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
  log ownScales rampFactor`.split(/\s+/u);

/** Letters only, because an object sorts keys that look like numbers. */
const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

const SHORT_KEYS: ReadonlyMap<string, string> = new Map(
  KEYS.map((key, place) => [key, lettersOf(place)]),
);
const LONG_KEYS: ReadonlyMap<string, string> = new Map(
  KEYS.map((key, place) => [lettersOf(place), key]),
);

/** a to Z, then aa, ab and so on. */
function lettersOf(place: number): string {
  const letter = LETTERS.charAt(place % LETTERS.length);
  const rest = Math.floor(place / LETTERS.length);
  return rest === 0 ? letter : lettersOf(rest - 1) + letter;
}

/** Marks a key that is not in `KEYS`. */
const WRITTEN_OUT = "_";

/** The part of a link after `#`. Its characters need no escaping. */
export function encodeRun(run: SharedRun): string {
  return `${VERSION}.${toBase64Url(JSON.stringify(renamed(run, shortKey)))}`;
}

/** The URL of a page that shows the run. */
export function linkTo(pagesUrl: string, run: SharedRun): string {
  const base = pagesUrl.endsWith("/") ? pagesUrl : `${pagesUrl}/`;
  return `${base}simulator#${encodeRun(run)}`;
}

/**
 * Decodes the result of `encodeRun`, with or without its `#`. Returns a problem for any other text;
 * never throws.
 */
export function decodeRun(hash: string): Decoded {
  const text = hash.replace(/^#/u, "");
  const cut = text.indexOf(".");
  const version = text.slice(0, Math.max(0, cut));
  if (text.length > MAX_CHARACTERS) return { problem: "the link is too long" };
  if (!/^\d{1,4}$/u.test(version)) return { problem: "the link contains no run" };
  if (version !== VERSION) return { problem: `the link has version ${version}, not ${VERSION}` };
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

/** Unknown letters stay unchanged; no document has such a field. */
function longKey(key: string): string {
  if (key.startsWith(WRITTEN_OUT)) return key.slice(WRITTEN_OUT.length);
  return LONG_KEYS.get(key) ?? key;
}

type Check = (run: Readonly<Record<string, unknown>>) => boolean;

const isPolicy = (value: unknown) => typeof value === "string" || isObject(value);

/** Checks only what the views need to start. Core and the simulator check the documents. */
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

// Base64url (RFC 4648, section 5) of a UTF-8 text, with functions that browsers and Node both have.

/**
 * Globals that exist on every platform. The package's types assume no platform, so they are
 * declared here.
 */
interface Globals {
  btoa(binary: string): string;
  atob(encoded: string): string;
  readonly TextEncoder: new () => { encode(text: string): Uint8Array };
  readonly TextDecoder: new (
    label: string,
    options: { readonly fatal: boolean },
  ) => { decode(bytes: Uint8Array): string };
}

const globals = globalThis as unknown as Globals;

function toBase64Url(text: string): string {
  const bytes = new globals.TextEncoder().encode(text);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return globals.btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Throws if the text is not base64url of UTF-8. */
function fromBase64Url(encoded: string): string {
  const binary = globals.atob(encoded.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  return new globals.TextDecoder("utf-8", { fatal: true }).decode(bytes);
}
