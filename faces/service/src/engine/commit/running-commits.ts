/**
 * Running commits: the commits of one loop that are under way. Their results are applied in the order in
 * which they started, whichever arrives first. So the settle of a claim is applied before a later claim
 * of the same task, and events have the order of what happened.
 */
import type { CommitResult } from "../../model/batch.ts";
import type { PendingCommit } from "./commit-batch.ts";
import { isSuspectClaim } from "./suspect-turn.ts";

export interface CommitHandlers {
  readonly succeed: (commit: PendingCommit, result: CommitResult) => void;
  /** Later results wait for the promise, if it returns one. Then `resume` is called. */
  readonly fail: (commit: PendingCommit, error: unknown) => Promise<void> | undefined;
  readonly resume: () => void;
}

interface RunningCommit {
  readonly commit: PendingCommit;
  /** Applies the result; undefined: it has not arrived. */
  apply: (() => Promise<void> | undefined) | undefined;
}

export class RunningCommits {
  readonly #handlers: CommitHandlers;
  readonly #running: RunningCommit[] = [];
  /** The result of one commit is being applied by a promise. */
  #isApplying = false;

  constructor(handlers: CommitHandlers) {
    this.#handlers = handlers;
  }

  get count(): number {
    return this.#running.length + (this.#isApplying ? 1 : 0);
  }

  /**
   * May another commit start now? The version of a row that is being written is not known, and a result
   * that needs several commits may change what the next one should contain.
   */
  get mayOverlap(): boolean {
    return !this.#isApplying && this.#running.every(({ commit }) => commit.written.length === 0);
  }

  hasSuspect(): boolean {
    return this.#running.some(({ commit }) => commit.claims.some(isSuspectClaim));
  }

  start(commit: PendingCommit, result: Promise<CommitResult>): void {
    const { succeed, fail } = this.#handlers;
    const running: RunningCommit = { commit, apply: undefined };
    this.#running.push(running);
    result.then(
      (value) => this.#arrive(running, () => void succeed(commit, value)),
      (error: unknown) => this.#arrive(running, () => fail(commit, error)),
    );
  }

  #arrive(running: RunningCommit, apply: RunningCommit["apply"]): void {
    running.apply = apply;
    this.#applyNext();
  }

  #applyNext(): void {
    while (!this.#isApplying && this.#running[0]?.apply !== undefined) {
      const applied = this.#running.shift()?.apply?.();
      if (applied !== undefined) this.#waitFor(applied);
    }
  }

  #waitFor(applied: Promise<void>): void {
    this.#isApplying = true;
    const resume = () => {
      this.#isApplying = false;
      this.#handlers.resume();
      this.#applyNext();
    };
    applied.then(resume, resume);
  }
}
