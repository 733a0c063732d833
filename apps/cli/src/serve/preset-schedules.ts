/** Schedules: the presets with the waits they give, for the page and for programs. */
import { compilePolicy, type PolicyDocument, presets, resolvePolicy } from "@redrive/core";

/** Longer schedules are cut: the first waits tell the shape. */
const MAX_WAITS_SHOWN = 12;

export interface PresetSchedule {
  readonly name: string;
  readonly description: string;
  readonly maxAttempts: number;
  readonly jitterType: string;
  /** The longest wait after attempt 1, 2, 3, ...; chance picks the wait at or below it. */
  readonly ceilingsMs: readonly number[];
  readonly document: PolicyDocument;
}

export function presetSchedules(): readonly PresetSchedule[] {
  return Object.entries(presets).map(([name, document]) => schedule(name, document));
}

function schedule(name: string, document: PolicyDocument): PresetSchedule {
  const policy = resolvePolicy(document);
  const kernel = compilePolicy(policy);
  const waits = Math.min(policy.maxAttempts - 1, MAX_WAITS_SHOWN);
  return {
    name,
    description: policy.description ?? "",
    maxAttempts: policy.maxAttempts,
    jitterType: policy.jitterType,
    ceilingsMs: Array.from({ length: waits }, (_, index) => kernel.ceilingMs(index + 1)),
    document,
  };
}
