/** Plugin: makes Vitest load one source file with the fault of a mutant. Nothing is written. */
import { writeFileSync } from "node:fs";
import { inRoot } from "../setup/root.mjs";
import { LOADED_VARIABLE, MUTANT_VARIABLE } from "./mutant.mjs";

/** No plugin, unless the environment names a mutant. */
export function mutantPlugins() {
  const json = process.env[MUTANT_VARIABLE];
  if (json === undefined) return [];
  /** @type {import("./mutant.mjs").ChangedFile} */
  const { file, text } = JSON.parse(json);
  const path = inRoot(file);
  return [
    {
      name: "redrive-mutant",
      enforce: /** @type {const} */ ("pre"),
      /** @param {string} id */
      load(id) {
        if (id.split("?")[0] !== path) return null;
        const loaded = process.env[LOADED_VARIABLE];
        if (loaded !== undefined) writeFileSync(loaded, "");
        return text;
      },
    },
  ];
}
