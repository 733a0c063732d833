/**
 * `npm run test:soak`: a week of churn on a real PostgreSQL server in minutes, and a long transaction
 * during churn. The claims must stay as fast. `npm test` has a short form of both.
 */
process.env["REDRIVE_SOAK_ROUNDS"] ??= "200";
process.argv.push("stores", "postgres-soak", "postgres-upkeep");
await import("./test.mjs");
