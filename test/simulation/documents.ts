/**
 * Documents: destination documents that operators put. Each text is unique, so a checker can tell
 * which put it came from. Two texts may still have the same effect.
 */
import {
  type Destination,
  type DestinationDocument,
  type Random,
  resolveDestination,
} from "@redrive/core";

type Parts<Part extends keyof DestinationDocument> = readonly DestinationDocument[Part][];

/** Small limits, so that each takes effect. Undefined means the default. */
const CONCURRENCY: Parts<"concurrency"> = [
  undefined,
  false,
  { max: 1, algorithm: "FIXED" },
  { max: 3, algorithm: "FIXED", maxRetries: 1 },
  { max: 6 },
];
const RATE: Parts<"rate"> = [
  undefined,
  undefined,
  false,
  { perSecond: 3, burst: 1 },
  { perSecond: 10, burst: 4 },
];
const BREAKER: Parts<"breaker"> = [
  undefined,
  false,
  { minCalls: 4, openMs: 1500 },
  { minCalls: 6, openMs: 800, halfOpenProbes: 2 },
];
const RETRY_BUDGET: Parts<"retryBudget"> = [
  undefined,
  false,
  { ratio: 0.5, minPerSecond: 0.2, windowMs: 5000 },
  { kind: "TOKENS", maxTokens: 20, costPerRetry: 5, costPerThrottle: 5 },
];

/** `serial` makes the text unique. */
export function drawDocument(random: Random, serial: number): string {
  const pick = <Part>(parts: readonly Part[]) => parts[Math.floor(random.next() * parts.length)];
  const document = {
    description: `put ${serial}`,
    concurrency: pick(CONCURRENCY),
    rate: pick(RATE),
    breaker: pick(BREAKER),
    retryBudget: pick(RETRY_BUDGET),
  };
  return JSON.stringify(document);
}

/** A document of a newer version, which has a value that this version does not understand. */
export function newerDocument(serial: number): string {
  const concurrency = { algorithm: NEWER_VALUE };
  return JSON.stringify({ description: `put ${serial}`, concurrency });
}

const NEWER_VALUE = "ALGORITHM_OF_A_NEWER_VERSION";

/** False for a document of a newer version. */
export function isReadable(text: string | null): boolean {
  return text === null || !text.includes(NEWER_VALUE);
}

const resolved = new Map<string | null, Destination>();

/** A stored document, completed with the service's defaults. One that is not readable has no parts. */
export function documentOf(text: string | null): Destination {
  let document = resolved.get(text);
  if (document === undefined) {
    if (resolved.size > 1000) resolved.clear();
    const parts = text === null || !isReadable(text) ? {} : JSON.parse(text);
    document = resolveDestination(parts, "service");
    resolved.set(text, document);
  }
  return document;
}
