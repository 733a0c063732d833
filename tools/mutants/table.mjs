/** Table: all mutants, by folder of the service. */
import { bodies } from "./table/bodies.mjs";
import { brokers } from "./table/brokers.mjs";
import { deliver } from "./table/deliver.mjs";
import { destinations } from "./table/destinations.mjs";
import { fleets } from "./table/fleet.mjs";
import { grpc } from "./table/grpc.mjs";
import { http } from "./table/http.mjs";
import { intake } from "./table/intake.mjs";
import { operations } from "./table/operations.mjs";
import { queries } from "./table/queries.mjs";
import { run } from "./table/run.mjs";
import { schedules } from "./table/schedule.mjs";
import { servers } from "./table/servers.mjs";
import { tables } from "./table/tables.mjs";
import { writes } from "./table/writes.mjs";

/** @type {readonly import("./mutant.mjs").Mutant[]} */
export const mutants = [
  ...writes,
  ...tables,
  ...queries,
  ...servers,
  ...run,
  ...destinations,
  ...schedules,
  ...bodies,
  ...fleets,
  ...deliver,
  ...grpc,
  ...brokers,
  ...http,
  ...intake,
  ...operations,
];
