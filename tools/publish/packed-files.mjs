/** Packed files: files from elsewhere in the checkout that a package's tarball contains. */
import { join } from "node:path";
import { inRoot } from "../setup/root.mjs";

/**
 * @typedef {object} PackedFile
 * @property {string} from
 * @property {string} to in the folder of the package; ignored by git
 * @property {boolean} isBuilt created by `npm run build`
 */

/**
 * @param {string} folder of the package
 * @returns {readonly PackedFile[]}
 */
export function packedFiles(folder) {
  const license = { from: inRoot("LICENSE"), to: join(folder, "LICENSE"), isBuilt: false };
  if (folder !== inRoot("apps", "cli")) return [license];
  const pages = { from: inRoot("apps", "web", "dist"), to: join(folder, "pages"), isBuilt: true };
  return [license, pages];
}
