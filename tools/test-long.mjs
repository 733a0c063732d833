/**
 * `npm run test:long`: runs longer tests than `npm test`: the simulation with ten thousand seeds
 * instead of a thousand (and including those), and every property test with new inputs. A failure
 * prints the seed that repeats it.
 */
import { randomInt } from "node:crypto";
import { PROPERTY_SEED_VARIABLE } from "./property-seed.mjs";
import { say } from "./setup/progress.mjs";

process.env["REDRIVE_SEEDS"] ??= "10000";
process.env[PROPERTY_SEED_VARIABLE] ??= String(randomInt(2 ** 31));
say(`Property tests use ${PROPERTY_SEED_VARIABLE}=${process.env[PROPERTY_SEED_VARIABLE]}`);
process.argv.push("unit", "cross", "core/src", "faces", "test/simulation");
await import("./test.mjs");
