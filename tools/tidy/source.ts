/**
 * Source: the input and the findings of tidy rules. Rules are pure functions of a list of sources, so
 * that tests need no files on disk.
 */
import { readFileSync } from "node:fs";
import { extname, relative, sep } from "node:path";
import { filesBelow } from "../setup/fingerprint.mjs";
import { root } from "../setup/root.mjs";

export interface Source {
  /** Relative to the root of the checkout, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

export interface Finding {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

export type Rule = (sources: readonly Source[]) => Finding[];

/** Extensions of files that are not text. */
const BINARY_EXTENSIONS = new Set([".png", ".ico", ".woff2", ".gz", ".db"]);

/** Reads every text file of the checkout that could be committed. */
export function readTree(): Source[] {
  return filesBelow(root)
    .filter((path) => !BINARY_EXTENSIONS.has(extname(path)))
    .map((path) => ({
      path: relative(root, path).split(sep).join("/"),
      text: readFileSync(path, "utf8"),
    }));
}

export function isCode({ path }: Source): boolean {
  return /\.(?:ts|tsx|mts|mjs|js)$/u.test(path);
}

export function isTest(path: string): boolean {
  return /\.test\.tsx?$/u.test(path);
}

/** Test files and files that only tests use, such as generators of random documents. */
export function isForTests(path: string): boolean {
  return /\.(?:test|testing)\.tsx?$/u.test(path);
}

/** Product code: the sources of core, the faces and the apps. */
export function isProduct(path: string): boolean {
  return /^(?:core|faces\/[^/]+|apps\/[^/]+)\/src\//u.test(path);
}

export function lineAt(text: string, index: number): number {
  return text.slice(0, index).split("\n").length;
}

/** Formats a finding like a compiler error, so that editors and terminals link to it. */
export function formatFinding({ path, line, message }: Finding): string {
  return `${path}:${line}: ${message}`;
}
