/**
 * Catalogue entry: what one peer really does, as a policy document, with where it was seen and how
 * the document falls short of it. Apart from `catalogue.ts` so that the data files need not import
 * the list they are part of.
 */
import type { DestinationDocument } from "../../guards/destination.ts";
import { ERROR_CLASSES, GRPC_CODES } from "../../policy/error-classes.ts";
import type { PolicyDocument } from "../../policy/policy.ts";
import { statusRange } from "../../policy/status-range.ts";

export interface CatalogEntry {
  /** Also the policy's id. */
  readonly id: string;
  readonly title: string;
  readonly version: string;
  /** The day on which the source was seen, as YYYY-MM-DD. */
  readonly date: string;
  /** A URL, or a package with its version and the file in it. */
  readonly source: string;
  readonly policy: PolicyDocument;
  /** The peer's guards; those it lacks are off. */
  readonly destination: Omit<DestinationDocument, "policy">;
  /** HTTP methods it repeats; left out where it repeats whatever it is given. */
  readonly methods?: readonly string[];
  /** Whole sentences on what the document cannot say; empty where it says everything. */
  readonly differs: readonly string[];
}

type Peer = Omit<CatalogEntry, "destination"> & Partial<Pick<CatalogEntry, "destination">>;

const NO_GUARDS = { retryBudget: false, breaker: false, concurrency: false } as const;

/** Names the policy after its entry, and turns off the guards that the peer lacks. */
export function entry(peer: Peer): CatalogEntry {
  const description = `${peer.title} (${peer.version}), as seen on ${peer.date}.`;
  return {
    ...peer,
    policy: { policyId: peer.id, description, ...peer.policy },
    destination: { ...NO_GUARDS, ...peer.destination },
  };
}

/** For a peer that bounds neither an attempt nor the call: the longest spans a policy can say. */
export const UNBOUNDED: PolicyDocument = {
  connectTimeoutMs: 60_000,
  attemptTimeoutMs: 600_000,
  totalBudgetMs: 365 * 86_400_000,
};

/** For a peer that repeats whatever failed, without a look at how. */
export const ANY_FAILURE: PolicyDocument = {
  retryableStatusCodes: statusRange(300, 599),
  retryableGrpcCodes: GRPC_CODES.filter((code) => code !== "OK"),
  retryableErrors: ERROR_CLASSES,
  respectRetryAfter: false,
};

/** For a peer that never stops by itself: the most attempts a policy can say. */
export const MAX_ATTEMPTS = 1000;

/** Sentences that several entries need, each about the peer it is given. */
export const unbounded = (name: string): string =>
  `${name} bounds neither an attempt nor the whole call; the longest spans a policy can say stand for that.`;

export const anyFailure = (name: string): string =>
  `${name} repeats whatever its function throws and knows no statuses, so all of them are listed; Redrive still stops at a program's own mistakes, such as a TypeError.`;

export const endless = (name: string): string =>
  `${name} never stops by itself; ${MAX_ATTEMPTS} attempts, the most a policy can say, stand for that.`;

export const exactHint = (name: string): string =>
  `${name} waits exactly as long as Retry-After says; Redrive adds a draw on top, so that not all come back at one instant.`;
