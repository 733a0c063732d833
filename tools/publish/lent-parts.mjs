/** Lent parts: what a package's tarball holds that lies elsewhere in the clone. */
import { join } from "node:path";
import { inRoot } from "../setup/root.mjs";

/**
 * @typedef {object} LentPart
 * @property {string} from
 * @property {string} to in the folder of the package; ignored by git
 * @property {boolean} isBuilt made by `npm run build`
 */

/**
 * @param {string} folder of the package
 * @returns {readonly LentPart[]}
 */
export function lentParts(folder) {
  const license = { from: inRoot("LICENSE"), to: join(folder, "LICENSE"), isBuilt: false };
  if (folder !== inRoot("apps", "cli")) return [license];
  const pages = { from: inRoot("apps", "web", "dist"), to: join(folder, "pages"), isBuilt: true };
  return [license, pages];
}
