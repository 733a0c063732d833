/** Rules: all tidy rules by name. */
import { ambient } from "./ambient.ts";
import { cycles } from "./cycles.ts";
import { mutualFolders } from "./folders.ts";
import { guardSteps } from "./guard-steps.ts";
import { importDirection } from "./import-direction.ts";
import { silencedTests, traces } from "./leftovers.ts";
import { lockfile } from "./lockfile.ts";
import { names } from "./names.ts";
import { purpose } from "./purpose.ts";
import { sizes } from "./sizes.ts";
import type { Rule } from "./source.ts";

export const RULES: Readonly<Record<string, Rule>> = {
  "imports point toward core": importDirection,
  "no import cycles": cycles,
  "no ambient time or random numbers": ambient,
  "only core's admission steps guards": guardSteps,
  "no two folders import each other": mutualFolders,
  "the product has no more files and folders than before": (sources) => sizes(sources),
  "every file opens with its purpose": purpose,
  "files and exports have good names": names,
  "lockfiles are complete": lockfile,
  "no traces of one machine": traces,
  "no test is silenced without a reason": silencedTests,
};
