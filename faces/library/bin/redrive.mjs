#!/usr/bin/env node
/**
 * The `redrive` command of the library's package: runs the command line of `@redrive/cli` if it is
 * installed, and otherwise says how to get it. Both packages can provide `redrive`, and either works.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const COMMAND_LINE = "@redrive/cli/bin/redrive.mjs";

const installed = [join(process.cwd(), "package.json"), import.meta.url]
  .map(resolveCommandLine)
  .find((path) => path !== undefined);
if (installed === undefined) {
  process.stderr.write(
    "The command line is the package @redrive/cli. Run `npx @redrive/cli`, or install it: `npm install @redrive/cli`.\n",
  );
  process.exitCode = 1;
} else {
  await import(pathToFileURL(installed).href);
}

/**
 * @param {string} from
 * @returns {string | undefined}
 */
function resolveCommandLine(from) {
  try {
    return createRequire(from).resolve(COMMAND_LINE);
  } catch {
    return undefined;
  }
}
