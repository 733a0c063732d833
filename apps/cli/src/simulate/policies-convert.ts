/**
 * `redrive policies export` and `redrive policies import`: convert a policy to the format of gRPC,
 * the AWS SDKs or Envoy, or to code for another language or library, and the retry settings of
 * those systems to a destination document. What cannot be converted is listed on standard error.
 */

import { RedriveError } from "@redrive/core";
import {
  exportAws,
  exportEnvoy,
  exportGrpc,
  type Imported,
  importAws,
  importEnvoy,
  importGrpc,
} from "@redrive/core/interop";
import { type CodeTarget, codeFor, codeTargets } from "@redrive/simulator/export";
import { type Command, Option } from "commander";
import { readJson, readText, withFileName } from "../terminal/documents.ts";
import { addExamples, choiceFlag } from "../terminal/flags.ts";
import { choosePolicy } from "../terminal/policy-choice.ts";
import {
  addOutputFlags,
  jsonLines,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../terminal/presentation.ts";
import type { Terminal } from "../terminal/terminal.ts";

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

function presentExport(flags: ExportFlags): Presentation {
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

interface ImportFlags extends OutputOptions, TargetFlags {
  readonly grpc?: string;
  readonly aws?: string;
  readonly envoy?: string;
}

export function addImport(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("import")
    .description("Convert the retry settings of another system to a destination document.");
  addSystemFlags(command, "<file>", {
    grpc: "read a gRPC service config (JSON)",
    aws: "read an AWS config file, such as ~/.aws/config",
    envoy: "read an Envoy route or retry policy (JSON)",
  });
  addOutputFlags(command, "json");
  addExamples(
    command,
    "redrive policies import --grpc service-config.json > orders.json",
    "redrive policies import --aws ~/.aws/config --profile production",
  );
  command.action((flags: ImportFlags) =>
    presentResult(terminal, flags, () => presentImport(flags)),
  );
}

function presentImport(flags: ImportFlags): Presentation {
  const { policy, destination, notes } = importFrom(flags);
  const document = { policy, ...destination };
  return {
    json: { policy, destination, notes },
    text: () => jsonLines(document),
    notes,
  };
}

function importFrom(flags: ImportFlags): Imported {
  const system = chosenSystem(flags);
  const path = flags[system] ?? "-";
  const { profile } = flags;
  switch (system) {
    case "grpc":
      return withFileName(path, () => importGrpc(readJson(path), grpcTarget(flags)));
    case "aws":
      return withFileName(path, () =>
        importAws(readText(path), profile === undefined ? {} : { profile }),
      );
    case "envoy":
      return withFileName(path, () => importEnvoy(readJson(path)));
  }
}

// Config format flags: the flags that select the configuration format of another system, exactly
// one.

const SYSTEMS = ["grpc", "aws", "envoy"] as const;
type System = (typeof SYSTEMS)[number];

interface TargetFlags {
  readonly profile?: string;
  readonly service?: string;
  readonly method?: string;
}

/** Adds one flag per system, with or without a value. The flags exclude each other. */
function addSystemFlags(
  command: Command,
  value: string,
  descriptions: Record<System, string>,
): Command {
  for (const system of SYSTEMS) {
    const others = SYSTEMS.filter((other) => other !== system);
    const flag = `--${system}${value === "" ? "" : ` ${value}`}`;
    command.addOption(new Option(flag, descriptions[system]).conflicts([...others]));
  }
  return command
    .option("--profile <name>", "with --aws: the profile (default: default)")
    .option("--service <name>", "with --grpc: the service")
    .option("--method <name>", "with --grpc and --service: the method");
}

/** `more`: flags that could be given instead. */
function chosenSystem(
  flags: Partial<Record<System, unknown>>,
  more: readonly string[] = [],
): System {
  const system = SYSTEMS.find((one) => flags[one] !== undefined);
  if (system !== undefined) return system;
  const known = [...SYSTEMS, ...more].map((one) => `--${one}`).join(", ");
  throw new RedriveError("INVALID_ARGUMENT", `no system given: use one of ${known}`);
}

function grpcTarget({ service, method }: TargetFlags): {
  service?: string;
  method?: string;
} {
  return { ...(service !== undefined && { service }), ...(method !== undefined && { method }) };
}
