/** Code sheet: which policy is being shown as code; the dialog itself is loaded when it is. */
import { type ReadonlySignal, signal } from "@preact/signals";
import type { PolicyDocument } from "@redrive/core";

const shown = signal<PolicyDocument | undefined>(undefined);

export const shownPolicy: ReadonlySignal<PolicyDocument | undefined> = shown;

export function showCode(policy: PolicyDocument): void {
  shown.value = policy;
}

export function hideCode(): void {
  shown.value = undefined;
}
