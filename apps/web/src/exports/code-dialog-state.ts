/** Code dialog state: the policy that the code dialog shows, if it is open. */
import { type ReadonlySignal, signal } from "@preact/signals";
import type { PolicyDocument } from "@redrive/core";

export interface ShownCode {
  readonly policy: PolicyDocument;
  /** Names the policy, if a view has several. */
  readonly title: string;
}

const shown = signal<ShownCode | undefined>(undefined);

export const shownCode: ReadonlySignal<ShownCode | undefined> = shown;

export function showCode(policy: PolicyDocument, title = "This policy"): void {
  shown.value = { policy, title };
}

export function hideCode(): void {
  shown.value = undefined;
}
