/**
 * Program: the commands, their options and their exit codes (0 ok, 1 failed, 2 wrong use, 3
 * partial). A mistyped command is answered with the nearest one.
 */
import { readFileSync } from "node:fs";
import { Command, type CommanderError, InvalidArgumentError } from "commander";
import { addAdvise } from "./commands/advise.ts";
import { addPolicies } from "./commands/policies.ts";
import { addSchedule } from "./commands/schedule.ts";
import { addSim } from "./commands/sim.ts";
import { runDev } from "./dev.ts";
import { type Screen, systemScreen } from "./screen.ts";

const FAILED = 1;
const WRONG_USE = 2;

export function program(screen: Screen = systemScreen()): Command {
  const redrive = new Command("redrive")
    .description("Retries that heal instead of hurt.")
    .version(ownVersion())
    .showHelpAfterError("(redrive --help lists the commands)")
    .exitOverride(exit);
  redrive
    .command("dev")
    .description("run Redrive on this machine, to try it out")
    .option("--port <port>", "where to listen; the next free port if it is taken", parsePort, 7337)
    .action(runDev)
    .exitOverride(exit);
  addSchedule(redrive, screen);
  addSim(redrive, screen);
  addAdvise(redrive, screen);
  addPolicies(redrive, screen);
  return redrive;
}

/** Commander ends with 1 for wrong use; scripts must be able to tell that from a failure. */
function exit(error: CommanderError): never {
  process.exit(error.exitCode === FAILED ? WRONG_USE : error.exitCode);
}

function parsePort(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/u.test(text) && port <= 65_535) return port;
  throw new InvalidArgumentError("Must be 0 to 65535.");
}

function ownVersion(): string {
  const manifest = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}
