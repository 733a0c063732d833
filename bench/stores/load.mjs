/**
 * Load: loads a peer by its name. Peers are not dependencies of a package, so the check of types must not
 * need them.
 */

/** @param {string} name @returns {Promise<any>} */
export function load(name) {
  return import(name);
}
