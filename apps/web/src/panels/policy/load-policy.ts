/** Named policy: the document behind a preset's or a catalogue entry's name, or behind what a link holds. */
import { type PolicyDocument, preset, presets } from "@redrive/core";
import type { SharedPolicy } from "@redrive/simulator/share";

/** Throws for a name that nobody has. */
export async function loadPolicy(name: string): Promise<PolicyDocument> {
  if (Object.hasOwn(presets, name)) return preset(name);
  const { catalogEntry: catalogueEntry } = await import("./catalog.ts");
  return catalogueEntry(name).policy;
}

export async function loadSharedPolicy(shared: SharedPolicy): Promise<PolicyDocument> {
  return typeof shared === "string" ? await loadPolicy(shared) : shared;
}
