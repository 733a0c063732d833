/**
 * `npm run test:long`: runs longer tests than `npm test`: the simulation with ten thousand seeds
 * on all cores, every property test with new inputs, and more kills of the service.
 * A failure prints the seed that repeats it.
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
process.env["REDRIVE_SEEDS"] ??= "10000";
const isPassed = await simulateSeeds(Number(process.env["REDRIVE_SEEDS"]));
say(isPassed ? "The simulation passed" : "The simulation failed");

process.env[PROPERTY_SEED_VARIABLE] ??= String(randomInt(2 ** 31));
say(`Property tests use ${PROPERTY_SEED_VARIABLE}=${process.env[PROPERTY_SEED_VARIABLE]}`);
process.env["REDRIVE_KILLS"] ??= "60";
process.argv.push("unit", "cross", "core/src", "faces", "test/simulation/mutants");
process.argv.push("test/faults/kill", "test/faults/outbox-kill");
await import("./test.mjs");
if (!isPassed) process.exitCode = 1;
