/**
 * View: the contract between a folder in `views/` and the shell, and the seed at which the random
 * stream of a view starts.
 */
import { systemRandom } from "@redrive/core";
import type { SharedRun } from "@redrive/simulator/share";
import type { FunctionComponent } from "preact";
import type { ExportItem } from "../components/export-menu.ts";

export type ViewId = SharedRun["view"];

/** The content of a link to one view. */
export type RunOf<Id extends ViewId> = Extract<SharedRun, { readonly view: Id }>;

/** Applies a state that was read from a link to the store of the view. */
export type ApplyState = () => void;

export interface View<Id extends ViewId> {
  readonly id: Id;
  /** What the view shows, in two sentences. */
  readonly explanation: string;
  readonly Controls: FunctionComponent;
  readonly Stage: FunctionComponent;
  /** The state for a link. Reads signals, so that the address follows them. */
  state(): RunOf<Id>;
  /**
   * Reads a link and returns a function that applies it in one step. Throws `RedriveError` if a
   * document in the link is invalid.
   */
  open(run: RunOf<Id>): ApplyState | Promise<ApplyState>;
  /** Restores the initial state. */
  reset(): void;
  /** Draws again with a new seed. Absent if the view uses no randomness. */
  reroll?(): void;
  exports?(): readonly ExportItem[];
}

/** Any view. Each opens only its own kind of run. */
export type AnyView = { [Id in ViewId]: View<Id> }[ViewId];

export type Seed = number | string;

export const FIRST_SEED = 1;

/** Short enough to read aloud. */
const MAX_SEED = 99_999;

export function newSeed(seed: Seed): Seed {
  const drawn = 1 + Math.floor(systemRandom.next() * MAX_SEED);
  return drawn === seed ? drawn + 1 : drawn;
}
