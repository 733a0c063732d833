/** View: what a module in `views/` gives the shell, and what the shell does with it. */
import type { SharedRun } from "@redrive/simulator/share";
import type { FunctionComponent } from "preact";

export type ViewId = SharedRun["view"];

/** What a link holds for one view. */
export type RunOf<Id extends ViewId> = Extract<SharedRun, { readonly view: Id }>;

/** An entry of the Export menu. */
export interface Exportable {
  /** "PNG", "CSV": shown in the menu. */
  readonly label: string;
  /** What one gets, in a few words. */
  readonly hint: string;
  /** Rejects with a sentence where there is nothing to give. */
  run(): Promise<void>;
}

/** Fills a store with what was read. */
export type Fill = () => void;

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
  open(run: RunOf<Id>): Fill | Promise<Fill>;
  /** Back to what the view opens with. */
  reset(): void;
  /** Draws anew, with another seed. Left out where nothing is left to chance. */
  reroll?(): void;
  exports?(): readonly Exportable[];
}

/** Any of them; what it opens is its own kind of run. */
export type AnyView = { [Id in ViewId]: View<Id> }[ViewId];
