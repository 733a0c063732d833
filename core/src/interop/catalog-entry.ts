/**
 * Catalog entry: the behavior of one system as a policy document, with its source and its differences
 * from the document. It is separate from `catalog.ts`, so the data files need not import the list that
 * contains them.
 */

import { ERROR_CLASSES, GRPC_CODES, type PolicyDocument, statusRange } from "../decide/policy.ts";
import type { DestinationDocument } from "../guards/destination.ts";

export interface CatalogEntry {
  /** Also the policy's id. */
  readonly id: string;
  readonly title: string;
  readonly version: string;
  /** The date on which the source was checked, as YYYY-MM-DD. */
  readonly date: string;
  /** A URL, or a package with its version and the file in it. */
  readonly source: string;
  readonly policy: PolicyDocument;
  /** The system's guards; guards that it does not have are off. */
  readonly destination: Omit<DestinationDocument, "policy">;
  /** HTTP methods that it repeats; absent if it repeats all. */
  readonly methods?: readonly string[];
  /** Full sentences about what the document cannot express; empty if it expresses everything. */
  readonly differs: readonly string[];
}

type Peer = Omit<CatalogEntry, "destination"> & Partial<Pick<CatalogEntry, "destination">>;

const NO_GUARDS = { retryBudget: false, breaker: false, concurrency: false } as const;

/** Names the policy after its entry, and turns off the guards that the system does not have. */
export function entry(peer: Peer): CatalogEntry {
  const description = `${peer.title} (${peer.version}), as seen on ${peer.date}.`;
  return {
    ...peer,
    policy: { policyId: peer.id, description, ...peer.policy },
    destination: { ...NO_GUARDS, ...peer.destination },
  };
}

/** For a system without a limit for an attempt or the call: the maximum durations of a policy. */
export const UNBOUNDED: PolicyDocument = {
  connectTimeoutMs: 60_000,
  attemptTimeoutMs: 600_000,
  totalBudgetMs: 365 * 86_400_000,
};

/** For a system that repeats every failure. */
export const ANY_FAILURE: PolicyDocument = {
  retryableStatusCodes: statusRange(300, 599),
  retryableGrpcCodes: GRPC_CODES.filter((code) => code !== "OK"),
  retryableErrors: ERROR_CLASSES,
  respectRetryAfter: false,
};

/** For a system that never stops by itself: the maximum number of attempts in a policy. */
export const MAX_ATTEMPTS = 1000;

/** Sentences that several entries need, with the system's name. */
export const unbounded = (name: string): string =>
  `${name} limits neither an attempt nor the whole call; the maximum durations of a policy replace that.`;

export const anyFailure = (name: string): string =>
  `${name} repeats every error of its function and ignores statuses, so all of them are listed; Redrive still does not retry bugs in the program, such as a TypeError.`;

export const endless = (name: string): string =>
  `${name} never stops by itself; ${MAX_ATTEMPTS} attempts, the maximum of a policy, replace that.`;

export const exactHint = (name: string): string =>
  `${name} waits exactly as long as Retry-After says; Redrive adds a random time, so not all clients retry at one instant.`;
