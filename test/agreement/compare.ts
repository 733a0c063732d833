/** Compare: the cases that all faces run, and the comparison of the service with the library. */
import { expect } from "vitest";
import type { Store } from "../../faces/service/src/model/store.ts";
import {
  hasBudgetRace,
  hasEndTie,
  hasExpiryUnderThrottle,
  hasRetryTie,
  hasTimeout,
} from "./comparable.ts";
import { type GuardCase, guardCase } from "./guard-cases.ts";
import type { GuardedRun, RunEnd } from "./guarded-run.ts";
import { type LibraryRun, runLibrary } from "./library-run.ts";
import { runService } from "./service-run.ts";

/** Number of documents that every face must agree on: seven of each combination of guards. */
export const DOCUMENTS = Number(process.env["REDRIVE_DOCUMENTS"] ?? 250);

export const { REDRIVE_SEED } = process.env;

function* seeds(): Generator<number> {
  if (REDRIVE_SEED !== undefined) yield Number(REDRIVE_SEED);
  else for (let seed = 1; ; seed++) yield seed;
}

/** Yields the first `count` cases that pass `isIncluded`, with the library's run of each. */
export async function* comparableCases(
  count: number,
  change: (given: GuardCase) => GuardCase,
  isIncluded: (given: GuardCase, library: LibraryRun) => boolean,
): AsyncGenerator<{ readonly given: GuardCase; readonly library: LibraryRun }> {
  let left = count;
  for (const seed of seeds()) {
    const given = change(guardCase(seed));
    const library = await runLibrary(given);
    if (!isIncluded(given, library)) continue;
    yield { given, library };
    if (--left === 0) return;
  }
}

export const unchanged = (given: GuardCase) => given;
export const hasOneResult = (given: GuardCase, library: LibraryRun) => !hasTimeout(given, library);

/** The service always waits, and rejects hedges (decision 0010). */
const asServiceRunsIt = (given: GuardCase): GuardCase => ({
  ...given,
  patience: "wait",
  document: { ...given.document, hedge: false },
});

const hasOneResultInService = (given: GuardCase, library: LibraryRun) =>
  hasOneResult(given, library) &&
  !hasRetryTie(given, library) &&
  !hasEndTie(given, library) &&
  !hasBudgetRace(given, library) &&
  !hasExpiryUnderThrottle(given, library);

export const resultOf = ({ attempts, ends }: GuardedRun): GuardedRun => ({ attempts, ends });

export const replay = ({ seed }: GuardCase) => `replay it with REDRIVE_SEED=${seed}`;

/** A held task whose time runs out ends when its lane is next served, never earlier. */
function withLateEnds(service: GuardedRun, library: GuardedRun): GuardedRun {
  const isLate = (own: RunEnd, other: RunEnd) =>
    own.reason === other.reason && own.at >= other.at && ["budget", "held"].includes(own.reason);
  const ends = service.ends.map((own, index) => {
    const other = library.ends[index] as RunEnd;
    return isLate(own, other) ? other : own;
  });
  return { attempts: service.attempts, ends };
}

export async function compareService(count: number, open: () => Promise<Store> | Store) {
  for await (const { given, library } of comparableCases(
    count,
    asServiceRunsIt,
    hasOneResultInService,
  )) {
    const store = await open();
    const service = await runService(given, store);
    await store.close();
    expect(withLateEnds(service, library), replay(given)).toEqual(resultOf(library));
  }
}
