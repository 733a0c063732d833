/**
 * Sizes: the product has no more production files and folders than before. A file is a subject, of any
 * length; many small files are hard to follow. Biome measures functions.
 */
import { posix } from "node:path";
import { type Finding, isCode, isForTests, isProduct, type Source } from "./source.ts";

/** May only shrink: lower a number when the product needs less. */
export const MAX_PRODUCTION = { files: 495, folders: 60 };

export function sizes(sources: readonly Source[], max = MAX_PRODUCTION): Finding[] {
  const paths = sources
    .filter((source) => isCode(source) && isProduct(source.path) && !isForTests(source.path))
    .map(({ path }) => path);
  const counts = { files: paths.length, folders: new Set(paths.map(posix.dirname)).size };
  return (["files", "folders"] as const)
    .filter((kind) => counts[kind] > max[kind])
    .map((kind) => ({
      path: "tools/tidy/sizes.ts",
      line: 1,
      message: `the product has ${counts[kind]} ${kind}, at most ${max[kind]}: join what belongs to one subject`,
    }));
}
