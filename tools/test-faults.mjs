/**
 * `npm run test:faults`: the faults of a fleet of real processes on real servers: kills and stops of
 * nodes, wrong clocks, twenty crashes of each store, a store that hangs for half a minute, and networks
 * that lose data (docs/faults.md). They take too long for `npm test`, which has a shorter form of each.
 * Times are measured, so nothing else should run on the machine, and one file runs at a time.
 * `REDRIVE_FAULT_ROUNDS=1` repeats nothing.
 */
process.env["REDRIVE_FAULT_ROUNDS"] ??= "20";
process.argv.push("fleet", "--no-file-parallelism");
await import("./test.mjs");
