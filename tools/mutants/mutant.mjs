/**
 * Mutant: one deliberate fault in the code of the service or of core, as a statement of a declaration and
 * its replacement. The tests must find it.
 */
import { locate, textOf } from "./locate.mjs";

/**
 * @typedef {object} Mutant
 * @property {string} name what the service then does wrong
 * @property {string} in the declaration: `settleOf`, or `CommitLoop.#fail` for a member of a class
 * @property {string} [path] a part of the path, if several files have such a declaration
 * @property {string} search occurs exactly once in it, whatever the white space
 * @property {string} replace
 * @property {readonly string[]} [tests] further test files or folders that must find it
 * @property {string} [equivalent] why no test can find it
 */

/** Environment variable with the changed file, as JSON. Vitest then loads it. */
export const MUTANT_VARIABLE = "REDRIVE_MUTANT";

/** Environment variable with the path of a file that exists once the changed file was loaded. */
export const LOADED_VARIABLE = "REDRIVE_MUTANT_LOADED";

export const SERVICE = "faces/service/src";

/** @typedef {{ file: string, text: string }} ChangedFile `file`: from the root */

/**
 * The file with the fault. Throws unless the search text occurs exactly once: a mutant that no longer fits
 * tests nothing.
 * @param {Mutant} mutant
 * @returns {ChangedFile}
 */
export function mutate({ name, in: declaration, path, search, replace }) {
  try {
    const { file, start, end } = locate(declaration, search, path);
    const text = textOf(file);
    return { file, text: text.slice(0, start) + replace + text.slice(end) };
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    throw new Error(`mutant "${name}": ${message}. Adapt it to the changed code`, {
      cause: error,
    });
  }
}
