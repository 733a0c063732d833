/** Plugin: makes Vitest load one source file with the fault of a mutant. Nothing is written. */
import { readFileSync, writeFileSync } from "node:fs";
import { inRoot } from "../setup/root.mjs";
import { LOADED_VARIABLE, MUTANT_VARIABLE, mutate } from "./mutant.mjs";

/** No plugin, unless the environment names a mutant. */
export function mutantPlugins() {
  const json = process.env[MUTANT_VARIABLE];
  if (json === undefined) return [];
  /** @type {import("./mutant.mjs").Mutant} */
  const mutant = JSON.parse(json);
  const path = inRoot(mutant.file);
  return [
    {
      name: "redrive-mutant",
      enforce: /** @type {const} */ ("pre"),
      /** @param {string} id */
      load(id) {
        if (id.split("?")[0] !== path) return null;
        const text = mutate(readFileSync(path, "utf8"), mutant);
        const loaded = process.env[LOADED_VARIABLE];
        if (loaded !== undefined) writeFileSync(loaded, "");
        return text;
      },
    },
  ];
}
