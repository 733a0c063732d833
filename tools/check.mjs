/**
 * `npm run check`: checks format, lint, types and tidy rules. Exits with 1 if any check failed.
 */
import { runChecks, STATIC_CHECKS } from "./checks.mjs";
import { nodeScript } from "./setup/command.mjs";
import { exitOnFailure } from "./setup/failure.mjs";
import { installPackages } from "./setup/install.mjs";
import { requireNode } from "./setup/node-version.mjs";

const TIDY = {
  label: "tidy rules",
  ...nodeScript("vitest/vitest.mjs", ["run", "tools/tidy"]),
};

requireNode();
await exitOnFailure(installPackages);
process.exitCode = (await runChecks([...STATIC_CHECKS, TIDY])) === 0 ? 0 : 1;
