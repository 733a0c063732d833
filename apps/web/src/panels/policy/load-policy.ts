/** Load policy: the document of a preset, of a catalog entry, or of a policy in a link. */
import { type PolicyDocument, preset, presets } from "@redrive/core";
import type { SharedPolicy } from "@redrive/simulator/share";

/** Throws for an unknown name. */
export async function loadPolicy(name: string): Promise<PolicyDocument> {
  if (Object.hasOwn(presets, name)) return preset(name);
  const { catalogEntry } = await import("./catalog.ts");
  return catalogEntry(name).policy;
}

export async function loadSharedPolicy(shared: SharedPolicy): Promise<PolicyDocument> {
  return typeof shared === "string" ? await loadPolicy(shared) : shared;
}
