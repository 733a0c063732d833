/**
 * Mutant: one deliberate fault in a source file of the service, as a search text and its replacement.
 * The tests must find it.
 */

/**
 * @typedef {object} Mutant
 * @property {string} name what the service then does wrong
 * @property {string} file from the root of the checkout
 * @property {string} search occurs exactly once in the file
 * @property {string} replace
 * @property {readonly string[]} [tests] further test files or folders that must find it
 * @property {string} [equivalent] why no test can find it
 */

/** Environment variable with the mutant as JSON. Vitest then loads the changed file. */
export const MUTANT_VARIABLE = "REDRIVE_MUTANT";

/** Environment variable with the path of a file that exists once the changed file was loaded. */
export const LOADED_VARIABLE = "REDRIVE_MUTANT_LOADED";

export const SERVICE = "faces/service/src";

/**
 * The mutants of one file of the service.
 * @param {string} path below `faces/service/src`
 * @param {readonly Omit<Mutant, "file">[]} mutants
 * @returns {readonly Mutant[]}
 */
export function inService(path, mutants) {
  return mutants.map((mutant) => ({ file: `${SERVICE}/${path}`, ...mutant }));
}

/**
 * Returns the text with the fault. Throws unless the search text occurs exactly once: a mutant that
 * no longer fits its file tests nothing.
 * @param {string} text
 * @param {Mutant} mutant
 */
export function mutate(text, { name, file, search, replace }) {
  const found = text.split(search).length - 1;
  if (found !== 1) {
    throw new Error(
      `mutant "${name}": the search text must occur once in ${file}, but occurs ${found} times: ` +
        `${JSON.stringify(search)}. Adapt it to the changed file`,
    );
  }
  return text.replace(search, () => replace);
}
