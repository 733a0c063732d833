/** `redrive doctor`: checks whether a service can run on this machine and how to fix problems. */
import process from "node:process";
import { RedriveError, systemClock } from "@redrive/core";
import type { Command } from "commander";
import { addExamples } from "../terminal/flags.ts";
import {
  addOutputFlags,
  FAILED,
  OK,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../terminal/presentation.ts";
import { table } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Check } from "./doctor-checks.ts";
import { addBlobsFlag, addListenFlags, addStoreFlag } from "./serve.ts";
import type { ServiceFlags } from "./service-config.ts";

interface DoctorFlags extends ServiceFlags, Pick<OutputOptions, "json"> {
  readonly repair?: boolean;
  readonly acceptLoss?: boolean;
  readonly repairClock?: boolean;
}

export function addDoctor(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("doctor")
    .description(
      "Check that a service can run here: Node.js, store, bodies, port, keys, encryption, clock.",
    );
  addBlobsFlag(addStoreFlag(addListenFlags(command))).option(
    "--config <file>",
    "JSON configuration file, as for `redrive serve`",
  );
  command
    .option("--repair", "only the store: what is missing, and what can be saved")
    .option("--accept-loss", "with --repair: use the store without what is missing");
  command.option(
    "--repair-clock",
    "reset a store that was written with a clock that was ahead; stop the service first",
  );
  addOutputFlags(command, "json");
  addExamples(
    command,
    "redrive doctor",
    "redrive doctor --host 0.0.0.0 --store sqlite:redrive.db",
    "redrive doctor --repair --store sqlite:redrive.db",
    "redrive doctor --repair-clock --store sqlite:redrive.db",
  );
  command.action((flags: DoctorFlags) => presentResult(terminal, flags, () => runDoctor(flags)));
}

async function runDoctor(options: DoctorFlags): Promise<Presentation> {
  const { json: _, repair: isRepair, acceptLoss, repairClock, ...flags } = options;
  // Loads the service only for this command.
  const { serviceConfig } = await import("./service-config.ts");
  const { repair, repairClock: resetClock, runChecks } = await import("./doctor-checks.ts");
  if (isRepair) {
    return repair({ store: serviceConfig(flags).store, acceptLoss: acceptLoss === true });
  }
  if (acceptLoss) {
    throw new RedriveError("INVALID_ARGUMENT", "--accept-loss must be used with --repair");
  }
  const secrets = {
    apiKey: process.env["REDRIVE_API_KEY"],
    encryptionKey: process.env["REDRIVE_ENCRYPTION_KEY"],
  };
  const config = serviceConfig(flags);
  if (!repairClock) return presentChecks(await runChecks(config, secrets));
  return presentChecks([resetClock(systemClock, config.store)]);
}

const TONES = { ok: "good", warn: "warn", fail: "bad" } as const;

const COLUMNS = [
  { head: "" },
  { head: "" },
  { head: "found", wraps: true },
  { head: "fix", wraps: true },
] as const;

function presentChecks(checks: readonly Check[]): Presentation {
  const rows = checks.map(({ state, name, found, fix }) => [
    { text: state, tone: TONES[state] },
    name,
    found,
    fix,
  ]);
  return {
    json: { checks },
    text: (style) => table(COLUMNS, rows, style),
    exitCode: checks.some(({ state }) => state === "fail") ? FAILED : OK,
  };
}
