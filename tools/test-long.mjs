/**
 * `npm run test:long`: what `npm test` is too short for. The simulation on ten thousand seeds
 * instead of a thousand (the first of these are those), and every property on inputs never drawn
 * before; a failure names the seed that draws them again.
 */
import { randomInt } from "node:crypto";
import { PROPERTY_SEED_VARIABLE } from "./property-seed.mjs";
import { say } from "./setup/progress.mjs";

process.env["REDRIVE_SEEDS"] ??= "10000";
process.env[PROPERTY_SEED_VARIABLE] ??= String(randomInt(2 ** 31));
say(`Properties are drawn with ${PROPERTY_SEED_VARIABLE}=${process.env[PROPERTY_SEED_VARIABLE]}`);
process.argv.push("unit", "cross", "core/src", "faces", "test/simulation");
await import("./test.mjs");
