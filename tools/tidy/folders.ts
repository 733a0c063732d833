/**
 * Folders: no folder holds more than twenty production files, and no two folders import each other.
 * Imports of types count: a reader follows them as well.
 */
import { posix } from "node:path";
import { type Finding, isCode, isForTests, isProduct, type Source } from "./source.ts";
import { importsOf } from "./tokens.ts";

export const MAX_FILES = 20;

function productionFiles(sources: readonly Source[]): Source[] {
  return sources.filter(
    (source) => isCode(source) && isProduct(source.path) && !isForTests(source.path),
  );
}

export function fullFolders(sources: readonly Source[]): Finding[] {
  const counts = new Map<string, number>();
  for (const { path } of productionFiles(sources)) {
    const folder = posix.dirname(path);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts]
    .filter(([, count]) => count > MAX_FILES)
    .map(([path, count]) => ({
      path,
      line: 1,
      message: `${count} production files, at most ${MAX_FILES}: divide the folder by subject`,
    }));
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
