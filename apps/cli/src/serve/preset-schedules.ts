/** Preset schedules: the maximum waits of every preset, for the dev pages. */
import { compilePolicy, type PolicyDocument, presets, resolvePolicy } from "@redrive/core";

/** Longer schedules are cut off: the first waits show the shape. */
const MAX_WAITS_SHOWN = 12;

export interface PresetSchedule {
  readonly name: string;
  readonly description: string;
  readonly maxAttempts: number;
  readonly jitterType: string;
  /** The maximum wait after attempt 1, 2, 3, ... Jitter picks the actual wait below it. */
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
