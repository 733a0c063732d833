/**
 * `redrive policies export`: converts a policy to the format of gRPC, the AWS SDKs or Envoy, or to code
 * for another language or library. What cannot be converted is listed on standard error.
 */
import { exportAws, exportEnvoy, exportGrpc } from "@redrive/core/interop";
import { type CodeTarget, codeFor, codeTargets } from "@redrive/simulator/export";
import { type Command, Option } from "commander";
import { addExamples, choiceFlag } from "../input/flags.ts";
import { choosePolicy } from "../input/policy-choice.ts";
import { jsonLines } from "../print/json-lines.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import {
  addSystemFlags,
  chosenSystem,
  grpcTarget,
  SYSTEMS,
  type TargetFlags,
} from "./config-format-flags.ts";

interface ExportFlags extends OutputOptions, TargetFlags {
  readonly grpc?: boolean;
  readonly aws?: boolean;
  readonly envoy?: boolean;
  readonly code?: CodeTarget;
  readonly preset?: string;
  readonly policyFile?: string;
}

export function addExport(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("export")
    .description("Convert a policy to the format of gRPC, the AWS SDKs or Envoy, or to code.");
  addSystemFlags(command, "", {
    grpc: "write a gRPC service config",
    aws: "write a section of ~/.aws/config",
    envoy: "write the retry policy of an Envoy route",
  });
  command.addOption(
    new Option("--code <language>", `write code: ${CODE_NAMES.join(", ")}`)
      .argParser(choiceFlag(...CODE_NAMES))
      .conflicts([...SYSTEMS]),
  );
  command.option("--preset <name>", "a preset or a catalog entry");
  command.option(
    "--policy-file <file>",
    "a policy or destination document; - reads standard input",
  );
  addOutputFlags(command, "json");
  addExamples(
    command,
    "redrive policies export --envoy --preset read",
    "redrive policies export --code python --preset read",
    "redrive policies export --grpc --policy-file orders.json --service shop.Orders",
  );
  command.action((flags: ExportFlags) =>
    presentResult(terminal, flags, () => presentExport(flags)),
  );
}

/** The configuration formats have flags of their own. */
export const CODE_NAMES: readonly CodeTarget[] = codeTargets
  .map(({ id }) => id)
  .filter((id) => id !== "aws" && id !== "grpc");

interface Exported {
  /** The field of the value in JSON output. */
  readonly name: string;
  readonly value: object | string;
  readonly notes: readonly string[];
}

export function presentExport(flags: ExportFlags): Presentation {
  const { name, value, notes } = exportFor(flags);
  const text = typeof value === "string" ? value.trimEnd() : jsonLines(value).join("\n");
  return { json: { [name]: value, notes }, text: () => [text], notes };
}

function exportFor(flags: ExportFlags): Exported {
  const { document, guards } = choosePolicy(flags);
  const { profile, code } = flags;
  if (code !== undefined) {
    const { text, notes } = codeFor(code, document);
    return { name: code, value: text, notes: [...notes, ...guardNotes(guards)] };
  }
  const name = chosenSystem(flags, ["code"]);
  switch (name) {
    case "grpc": {
      const { config, notes } = exportGrpc(document, guards, grpcTarget(flags));
      return { name, value: config, notes };
    }
    case "aws": {
      const target = profile === undefined ? {} : { profile };
      const { text, notes } = exportAws(document, guards, target);
      return { name, value: text, notes };
    }
    case "envoy": {
      const { config, notes } = exportEnvoy(document, guards);
      return { name, value: config, notes };
    }
  }
}

function guardNotes(guards: object): readonly string[] {
  const names = Object.keys(guards);
  return names.length === 0 ? [] : [`The code does not contain ${names.join(", ")}.`];
}
