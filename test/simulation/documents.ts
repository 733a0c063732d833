/**
 * Documents: what operators put as a destination's document. No text is put twice, so that whoever
 * sees one knows which put it was; what it says may well be the same.
 */
import {
  type Destination,
  type DestinationDocument,
  type Random,
  resolveDestination,
} from "@redrive/core";

type Parts<Part extends keyof DestinationDocument> = readonly DestinationDocument[Part][];

/** Tight, so that each of them bites. Undefined: the default. */
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

/** `serial` makes the text unlike every other. */
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

const resolved = new Map<string | null, Destination>();

/** What a stored document says, with the service's defaults. */
export function documentOf(text: string | null): Destination {
  let document = resolved.get(text);
  if (document === undefined) {
    if (resolved.size > 1000) resolved.clear();
    document = resolveDestination(text === null ? {} : JSON.parse(text), "service");
    resolved.set(text, document);
  }
  return document;
}
