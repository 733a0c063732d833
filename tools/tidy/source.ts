/**
 * Source: a file of the tree as the tidy rules see it, and what they find. Rules are pure functions
 * over a list of sources, so that each can be shown a violation without touching the disk.
 */
import { readFileSync } from "node:fs";
import { extname, relative, sep } from "node:path";
import { filesBelow } from "../setup/fingerprint.mjs";
import { root } from "../setup/root.mjs";

export interface Source {
  /** From the root of the clone, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

export interface Finding {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

export type Rule = (sources: readonly Source[]) => Finding[];

/** Files whose bytes are no text, or not ours to keep tidy. */
const UNREAD = new Set([".png", ".ico", ".woff2", ".gz", ".db"]);

/** Every text file of the clone that could be committed. */
export function readTree(): Source[] {
  return filesBelow(root)
    .filter((path) => !UNREAD.has(extname(path)))
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

/** Test files and what only they use, such as generators of random documents. */
export function isForTests(path: string): boolean {
  return /\.(?:test|testing)\.tsx?$/u.test(path);
}

/** What ships: the sources of core, the faces and the apps. */
export function isProduct(path: string): boolean {
  return /^(?:core|faces\/[^/]+|apps\/[^/]+)\/src\//u.test(path);
}

export function lineAt(text: string, index: number): number {
  return text.slice(0, index).split("\n").length;
}

/** A finding as a compiler would print it, so that editors and terminals link to the place. */
export function spellFinding({ path, line, message }: Finding): string {
  return `${path}:${line}: ${message}`;
}
