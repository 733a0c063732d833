/**
 * Numbered commits: gives each commit the next number, in the same transaction, and records the
 * number in the ledger once the commit is durable.
 */
import type { Database } from "./database.ts";
import type { Ledger } from "./ledger.ts";

export interface NumberedCommits {
  /** Commits, and returns the number of the last commit. */
  commit(): number;
  commitUncounted(): void;
  /** The commit with this number and all before it are durable. */
  record(number: number): void;
}

/** Without a ledger, nothing is counted. */
export function numberedCommits(database: Database, ledger: Ledger | undefined): NumberedCommits {
  const commit = database.prepare("COMMIT");
  const commitUncounted = () => void commit.get();
  if (ledger === undefined) {
    const commitFirst = () => {
      commit.get();
      return 0;
    };
    return { commit: commitFirst, commitUncounted, record: () => {} };
  }
  const setNumber = database.prepare("UPDATE meta SET value = ? WHERE name = 'commit'");
  const getChanges = database.prepare("SELECT total_changes()");
  getChanges.setReturnArrays(true);
  const countChanges = () => (getChanges.get() as unknown as readonly [number])[0];
  let known = countChanges();
  let last = ledger.commit;

  /** A transaction that changed nothing gets no number, because it would need an fsync for it. */
  function commitNext(): number {
    const changes = countChanges();
    if (changes === known) {
      commit.get();
      return last;
    }
    setNumber.get(last + 1);
    known = changes + 1;
    commit.get();
    last++;
    return last;
  }

  return { commit: commitNext, commitUncounted, record: (number) => ledger.record(number) };
}
