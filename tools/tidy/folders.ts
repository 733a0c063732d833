/**
 * Folders: no two folders import each other. Imports of types count: a reader follows them as well.
 */
import { posix } from "node:path";
import { type Finding, isCode, isForTests, isProduct, type Source } from "./source.ts";
import { importsOf } from "./tokens.ts";

function productionFiles(sources: readonly Source[]): Source[] {
  return sources.filter(
    (source) => isCode(source) && isProduct(source.path) && !isForTests(source.path),
  );
}

export function mutualFolders(sources: readonly Source[]): Finding[] {
  const imports = new Map<string, Finding>();
  for (const source of productionFiles(sources)) {
    for (const finding of importsOfOtherFolders(source)) {
      if (!imports.has(finding.message)) imports.set(finding.message, finding);
    }
  }
  return [...imports.values()]
    .filter(({ message }) => imports.has(message.split(ARROW).reverse().join(ARROW)))
    .map(({ message, ...place }) => ({
      ...place,
      message: `${message}: these folders import each other`,
    }));
}

/** Between the importing folder and the imported one. */
const ARROW = " -> ";

function importsOfOtherFolders({ path, text }: Source): Finding[] {
  const folder = posix.dirname(path);
  return importsOf(text).flatMap(({ specifier, line }) => {
    const other = posix.dirname(posix.join(folder, specifier));
    if (!specifier.startsWith(".") || other === folder) return [];
    return [{ path, line, message: `${folder}${ARROW}${other}` }];
  });
}
