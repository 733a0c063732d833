/** Table: all mutants, by folder of the service. */
import { engine } from "./table/engine.mjs";
import { stores } from "./table/stores.mjs";

/** @type {readonly import("./mutant.mjs").Mutant[]} */
export const mutants = [...stores, ...engine];
