/**
 * Program: all commands of `redrive` and their exit codes (0 ok, 1 failed, 2 wrong usage, 3
 * partial). For a mistyped command, commander suggests the nearest one.
 */
import { Command, type CommanderError } from "commander";
import { addCompletion } from "./completion.ts";
import { addBackup, addRestore } from "./serve/backup.ts";
import { addDoctor } from "./serve/doctor.ts";
import { addKeys } from "./serve/keys.ts";
import { addExport, addImport } from "./serve/move-store.ts";
import { addDev, addServe, ownVersion } from "./serve/serve.ts";
import { addBridge } from "./service/bridge.ts";
import { addDestinations } from "./service/destinations.ts";
import { addDlq } from "./service/dlq.ts";
import { addSend } from "./service/send.ts";
import { addExplain, addTasks } from "./service/tasks.ts";
import { addAdvise } from "./simulate/advise.ts";
import { addFailover, addHerd } from "./simulate/compare.ts";
import { addDestination } from "./simulate/destination.ts";
import { addLab } from "./simulate/lab.ts";
import { addPolicies } from "./simulate/policies.ts";
import { addReplay } from "./simulate/replay.ts";
import { addLadder, addRun } from "./simulate/run.ts";
import { addSchedule } from "./simulate/schedule.ts";
import { FAILED, USAGE_ERROR } from "./terminal/presentation.ts";
import { systemTerminal, type Terminal } from "./terminal/terminal.ts";

export function program(terminal: Terminal = systemTerminal()): Command {
  const redrive = new Command("redrive")
    .description("Run the retry service, manage its tasks, and simulate retry policies.")
    .version(ownVersion())
    .exitOverride(exit)
    .configureOutput({ outputError: (text, write) => write(withoutSecrets(text)) });
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

/** `redrive sim`: the commands of the simulator, simplest first. */
function addSim(parent: Command, terminal: Terminal): void {
  const sim = parent
    .command("sim")
    .description("Simulate the effect of retry policies on a dependency.");
  addHerd(sim, terminal);
  addFailover(sim, terminal);
  addLadder(sim, terminal);
  addRun(sim, terminal);
  addDestination(sim, terminal);
  addLab(sim, terminal);
  addReplay(sim, terminal);
}

/** After a usage error, points to the help of the command that the user meant. */
function pointToHelp(command: Command, path: string): void {
  const { commands } = command;
  const purpose = commands.length > 0 ? "lists the commands" : "shows the usage";
  command.showHelpAfterError(`(${path} --help ${purpose})`);
  for (const child of commands) pointToHelp(child, `${path} ${child.name()}`);
}

/** Commander quotes a refused argument. That of a header, and the user in a URL, may be secrets. */
function withoutSecrets(text: string): string {
  return text
    .replace(/(--header <.*?>' argument ').*(' is invalid)/su, "$1***$2")
    .replace(/:\/\/[^\s/'"]*@/gu, "://***@");
}

/** Commander exits with 1 after a usage error; scripts must be able to distinguish it from a failure. */
function exit(error: CommanderError): never {
  process.exit(error.exitCode === FAILED ? USAGE_ERROR : error.exitCode);
}
