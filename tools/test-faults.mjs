/**
 * `npm run test:faults`: the faults of a fleet of real processes on real servers: kills and stops of
 * nodes, wrong clocks, twenty crashes of each store, and a store that hangs for half a minute. They take
 * too long for `npm test`; `REDRIVE_FAULT_ROUNDS=1` is the short form.
 */
process.env["REDRIVE_FAULT_ROUNDS"] ??= "20";
process.argv.push("fleet");
await import("./test.mjs");
