/** `redrive doctor`: whether a service could run here, and what to do if not. */
import process from "node:process";
import type { Command } from "commander";
import type { Check } from "../doctor-checks.ts";
import { addExamples } from "../flags.ts";
import {
  addOutput,
  FAILED,
  finish,
  OK,
  type OutputOptions,
  type Presentation,
} from "../presentation.ts";
import type { Screen } from "../screen.ts";
import type { ServiceFlags } from "../service-config.ts";
import { table } from "../terminal/table.ts";
import { addAddress, addStore } from "./serve.ts";

interface DoctorFlags extends ServiceFlags, Pick<OutputOptions, "json"> {}

export function addDoctor(parent: Command, screen: Screen): void {
  const command = parent
    .command("doctor")
    .description("look whether a service could run here: Node, store, port, keys, clock");
  addStore(addAddress(command)).option("--config <file>", "as for `redrive serve`");
  addOutput(command, "json");
  addExamples(command, "redrive doctor", "redrive doctor --host 0.0.0.0 --store sqlite:redrive.db");
  command.action((flags: DoctorFlags) => finish(screen, flags, () => examine(flags)));
}

async function examine({ json: _, ...flags }: DoctorFlags): Promise<Presentation> {
  const { serviceConfig } = await import("../service-config.ts");
  const { runChecks } = await import("../doctor-checks.ts");
  const secrets = {
    apiKey: process.env["REDRIVE_API_KEY"],
    encryptionKey: process.env["REDRIVE_ENCRYPTION_KEY"],
  };
  return presentChecks(await runChecks(serviceConfig(flags), secrets));
}

const TONES = { ok: "good", warn: "warn", fail: "bad" } as const;

const COLUMNS = [
  { head: "" },
  { head: "" },
  { head: "found", gives: true },
  { head: "what to do", gives: true },
] as const;

export function presentChecks(checks: readonly Check[]): Presentation {
  const rows = checks.map(({ state, name, found, fix }) => [
    { text: state, tone: TONES[state] },
    name,
    found,
    fix,
  ]);
  return {
    json: { checks },
    text: (look) => table(COLUMNS, rows, look),
    exitCode: checks.some(({ state }) => state === "fail") ? FAILED : OK,
  };
}
