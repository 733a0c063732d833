/**
 * Program: the commands, their options and their exit codes (0 ok, 1 failed, 2 wrong use, 3
 * partial). A mistyped command is answered with the nearest one.
 */
import { readFileSync } from "node:fs";
import { Command, type CommanderError } from "commander";
import { addAdvise } from "./commands/advise.ts";
import { addCompletion } from "./commands/completion.ts";
import { addDestinations } from "./commands/destinations.ts";
import { addDev } from "./commands/dev.ts";
import { addDlq } from "./commands/dlq.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addExport } from "./commands/export.ts";
import { addImport } from "./commands/import.ts";
import { addKeys } from "./commands/keys.ts";
import { addPolicies } from "./commands/policies.ts";
import { addSchedule } from "./commands/schedule.ts";
import { addSend } from "./commands/send.ts";
import { addServe } from "./commands/serve.ts";
import { addSim } from "./commands/sim.ts";
import { addTasks } from "./commands/tasks.ts";
import { type Screen, systemScreen } from "./screen.ts";

const FAILED = 1;
const WRONG_USE = 2;

export function program(screen: Screen = systemScreen()): Command {
  const redrive = new Command("redrive")
    .description("Retries that heal instead of hurt.")
    .version(ownVersion())
    .exitOverride(exit);
  addDev(redrive, screen);
  addServe(redrive, screen);
  addSend(redrive, screen);
  addTasks(redrive, screen);
  addDlq(redrive, screen);
  addDestinations(redrive, screen);
  addExport(redrive, screen);
  addImport(redrive, screen);
  addKeys(redrive, screen);
  addDoctor(redrive, screen);
  addSchedule(redrive, screen);
  addSim(redrive, screen);
  addAdvise(redrive, screen);
  addPolicies(redrive, screen);
  addCompletion(redrive, screen);
  pointToHelp(redrive, "redrive");
  return redrive;
}

/** Wrong use is answered with where the right one is told: by the command that was meant. */
function pointToHelp(command: Command, path: string): void {
  const { commands } = command;
  const told = commands.length > 0 ? "lists the commands" : "shows how it is used";
  command.showHelpAfterError(`(${path} --help ${told})`);
  for (const child of commands) pointToHelp(child, `${path} ${child.name()}`);
}

/** Commander ends with 1 for wrong use; scripts must be able to tell that from a failure. */
function exit(error: CommanderError): never {
  process.exit(error.exitCode === FAILED ? WRONG_USE : error.exitCode);
}

function ownVersion(): string {
  const manifest = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}
