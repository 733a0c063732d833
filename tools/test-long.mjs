/**
 * `npm run test:long`: runs what `npm test` runs, with more repetitions. The simulation runs ten
 * thousand seeds instead of 2,000 (and including those) on all cores, the faces agree on a thousand
 * documents instead of 250, the labs run in full, every property test has new inputs, and the service
 * is killed more often. The dashboard shows 100,000 tasks, and axe examines each of its pages in both
 * looks. A failure prints the seed that repeats it.
 */
import { randomInt } from "node:crypto";
import { PROPERTY_SEED_VARIABLE } from "./property-seed.mjs";
import { exitOnFailure } from "./setup/failure.mjs";
import { installPackages } from "./setup/install.mjs";
import { requireNode } from "./setup/node-version.mjs";
import { say } from "./setup/progress.mjs";
import { simulateSeeds } from "./simulate.mjs";

requireNode();
await exitOnFailure(installPackages);
process.env["REDRIVE_DOCUMENTS"] ??= "1000";
process.env["REDRIVE_LAB_EFFORT"] ??= "1";
process.env["REDRIVE_KILLS"] ??= "60";
const isPassed = await simulateSeeds(Number(process.env["REDRIVE_SEEDS"] ?? 10_000));
say(isPassed ? "The simulation passed" : "The simulation failed");

process.env[PROPERTY_SEED_VARIABLE] ??= String(randomInt(2 ** 31));
say(`Property tests use ${PROPERTY_SEED_VARIABLE}=${process.env[PROPERTY_SEED_VARIABLE]}`);
process.env["REDRIVE_LOOKS"] ??= "all";
process.argv.push("unit", "cross", "browser", "large");
process.argv.push("core/src", "faces", "test/agreement", "test/labs", "test/simulation/mutants");
process.argv.push("test/faults/kill", "test/faults/outbox-kill", "test/large");
process.argv.push("test/browser/dashboard.test.ts");
await import("./test.mjs");
if (!isPassed) process.exitCode = 1;
