/**
 * `npm run pack`: builds the packages and writes their tarballs to the folder `packages`, or to the
 * folder in the first argument. `npm publish packages/NAME.tgz` publishes one.
 */
import { resolve } from "node:path";
import process from "node:process";
import { buildPackages } from "./setup/build.mjs";
import { exitOnFailure } from "./setup/failure.mjs";
import { installPackages } from "./setup/install.mjs";
import { requireNode } from "./setup/node-version.mjs";
import { packInto } from "./setup/packed.mjs";
import { say } from "./setup/progress.mjs";
import { inRoot } from "./setup/root.mjs";

requireNode();
const target = resolve(process.argv[2] ?? inRoot("packages"));
await exitOnFailure(async () => {
  await installPackages();
  await buildPackages();
  await packInto(target);
});
say(`The tarballs are in ${target}`);
