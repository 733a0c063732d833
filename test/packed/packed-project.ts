/** Packed project: runs programs in the project that has the packed packages installed. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { packedApp } from "../../tools/setup/packed.mjs";
import { builtWorkspaces, inRoot } from "../../tools/setup/root.mjs";

export interface Program {
  readonly program: string;
  readonly args: readonly string[];
}

/** Without the variables that `npm test` sets for this checkout. */
export const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(?:npm_|NODE_OPTIONS$)/u.test(name)),
);

export const node = (...args: readonly string[]): Program => ({ program: process.execPath, args });

/** Returns the output of the program. Throws with its output on failure. */
export async function run({ program, args }: Program, cwd: string): Promise<string> {
  const options = { cwd, maxBuffer: 1e8, env };
  try {
    return (await promisify(execFile)(program, args, options)).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { readonly stdout: string; readonly stderr: string };
    throw new Error(`${program} ${args.join(" ")} failed:\n${stdout}${stderr}`, { cause: error });
  }
}

/** A new folder inside the project, in which imports find the packages. Removed after the test. */
export function folderInProject(files: Readonly<Record<string, string>> = {}): string {
  const folder = mkdtempSync(join(packedApp, "test-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

/** Everything that users can import: `redrive`, `redrive/testing`, ... */
export const entries: readonly string[] = builtWorkspaces.flatMap(entriesOf);

function entriesOf(workspace: string): readonly string[] {
  const manifest = JSON.parse(readFileSync(inRoot(workspace, "package.json"), "utf8")) as {
    readonly name: string;
    readonly exports?: Readonly<Record<string, unknown>>;
  };
  const paths = Object.keys(manifest.exports ?? {}).filter((entry) => !entry.includes("*"));
  return paths.map((entry) => `${manifest.name}${entry.slice(1)}`);
}
