/**
 * `npm run test:long`: the simulation on ten thousand seeds instead of a thousand. Apart from
 * `npm test`, which everybody runs; its seeds are the first of these.
 */
process.env["REDRIVE_SEEDS"] ??= "10000";
process.argv.push("test/simulation");
await import("./test.mjs");
