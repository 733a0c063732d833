/** View: what a module in `views/` gives the shell, and what the shell does with it. */
import type { SharedRun } from "@redrive/simulator/share";
import type { FunctionComponent } from "preact";
import type { ExportItem } from "../exports/export-menu.ts";

export type ViewId = SharedRun["view"];

/** What a link holds for one view. */
export type RunOf<Id extends ViewId> = Extract<SharedRun, { readonly view: Id }>;

/** Fills a store with what was read. */
export type ApplyState = () => void;

export interface View<Id extends ViewId> {
  readonly id: Id;
  /** What one is looking at, in two sentences of our own. */
  readonly explanation: string;
  readonly Controls: FunctionComponent;
  readonly Stage: FunctionComponent;
  /** The store as a link holds it. Reads signals, so that the address follows them. */
  state(): RunOf<Id>;
  /**
   * Reads a link, and gives what fills the store with it, which then happens at once. Throws
   * `RedriveError` where a document in it is wrong.
   */
  open(run: RunOf<Id>): ApplyState | Promise<ApplyState>;
  /** Back to what the view opens with. */
  reset(): void;
  /** Draws anew, with another seed. Left out where nothing is left to chance. */
  reroll?(): void;
  exports?(): readonly ExportItem[];
}

/** Any of them; what it opens is its own kind of run. */
export type AnyView = { [Id in ViewId]: View<Id> }[ViewId];
