/**
 * Program: all commands of `redrive` and their exit codes (0 ok, 1 failed, 2 wrong usage, 3
 * partial). For a mistyped command, commander suggests the nearest one.
 */
import { Command, type CommanderError } from "commander";
import { addBackup } from "./backups/backup-command.ts";
import { addRestore } from "./backups/restore-command.ts";
import { addBridge } from "./bridge/bridge-command.ts";
import { addCompletion } from "./completion.ts";
import { addDoctor } from "./doctor/doctor.ts";
import { addPolicies } from "./policies/policies.ts";
import { ownVersion } from "./print/own-version.ts";
import { FAILED, USAGE_ERROR } from "./print/presentation.ts";
import { systemTerminal, type Terminal } from "./print/terminal.ts";
import { addDev } from "./serve/dev.ts";
import { addKeys } from "./serve/keys-command.ts";
import { addServe } from "./serve/serve.ts";
import { addDlq } from "./service/dead-letters/dlq.ts";
import { addDestinations } from "./service/destinations/destinations.ts";
import { addExplain } from "./service/explain.ts";
import { addSend } from "./service/send.ts";
import { addTasks } from "./service/tasks.ts";
import { addAdvise } from "./simulate/advise.ts";
import { addSchedule } from "./simulate/schedule.ts";
import { addSim } from "./simulate/sim-commands.ts";
import { addExport } from "./transfer/export-command.ts";
import { addImport } from "./transfer/import-command.ts";

export function program(terminal: Terminal = systemTerminal()): Command {
  const redrive = new Command("redrive")
    .description("Run the retry service, manage its tasks, and simulate retry policies.")
    .version(ownVersion())
    .exitOverride(exit);
  addDev(redrive, terminal);
  addServe(redrive, terminal);
  addSend(redrive, terminal);
  addBridge(redrive, terminal);
  addTasks(redrive, terminal);
  addExplain(redrive, terminal);
  addDlq(redrive, terminal);
  addDestinations(redrive, terminal);
  addExport(redrive, terminal);
  addImport(redrive, terminal);
  addKeys(redrive, terminal);
  addBackup(redrive, terminal);
  addRestore(redrive, terminal);
  addDoctor(redrive, terminal);
  addSchedule(redrive, terminal);
  addSim(redrive, terminal);
  addAdvise(redrive, terminal);
  addPolicies(redrive, terminal);
  addCompletion(redrive, terminal);
  pointToHelp(redrive, "redrive");
  return redrive;
}

/** After a usage error, points to the help of the command that the user meant. */
function pointToHelp(command: Command, path: string): void {
  const { commands } = command;
  const purpose = commands.length > 0 ? "lists the commands" : "shows the usage";
  command.showHelpAfterError(`(${path} --help ${purpose})`);
  for (const child of commands) pointToHelp(child, `${path} ${child.name()}`);
}

/** Commander exits with 1 after a usage error; scripts must be able to distinguish it from a failure. */
function exit(error: CommanderError): never {
  process.exit(error.exitCode === FAILED ? USAGE_ERROR : error.exitCode);
}
