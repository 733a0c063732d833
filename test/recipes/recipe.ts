/**
 * Recipe: loads the code of a recipe from its page, so that the test runs what the reader sees. The
 * snippets of all pages are compiled by `tools/snippets.test.ts`.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inRoot } from "../../tools/setup/root.mjs";
import { snippetsOf } from "../../tools/snippets/markdown.ts";

/** Runs the TypeScript block of the page that exports something. `env`: what it reads from the environment. */
export async function runRecipe<Exports>(
  name: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Exports> {
  const page = `docs/recipes/${name}.md`;
  const blocks = snippetsOf(page, readFileSync(inRoot(page), "utf8"));
  const recipe = blocks.find(({ language, code }) => language === "ts" && /^export /mu.test(code));
  if (recipe === undefined) throw new Error(`${page} has no block that exports something`);
  // Inside the checkout, so that its packages are found.
  mkdirSync(inRoot(".redrive"), { recursive: true });
  const folder = mkdtempSync(inRoot(".redrive", "recipe-"));
  const file = join(folder, `${name}.ts`);
  writeFileSync(file, recipe.code);
  Object.assign(process.env, env);
  try {
    return (await import(/* @vite-ignore */ file)) as Exports;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
