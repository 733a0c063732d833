/** Code sheet: which policy is being shown as code; the dialog itself is loaded when it is. */
import { type ReadonlySignal, signal } from "@preact/signals";
import type { PolicyDocument } from "@redrive/core";

export interface ShownCode {
  readonly policy: PolicyDocument;
  /** Which policy it is, where a view has several. */
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
