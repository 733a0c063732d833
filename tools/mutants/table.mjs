/** Table: all mutants, by folder of the service. */
import { deliver } from "./table/deliver.mjs";
import { engine } from "./table/engine.mjs";
import { http } from "./table/http.mjs";
import { intake } from "./table/intake.mjs";
import { operations } from "./table/operations.mjs";
import { queries } from "./table/queries.mjs";
import { schedules } from "./table/schedule.mjs";
import { stores } from "./table/stores.mjs";

/** @type {readonly import("./mutant.mjs").Mutant[]} */
export const mutants = [
  ...stores,
  ...queries,
  ...engine,
  ...schedules,
  ...deliver,
  ...http,
  ...intake,
  ...operations,
];
