/**
 * `redrive policies import`: converts the retry settings of gRPC, the AWS SDKs or Envoy to a
 * destination document on standard output. What cannot be converted is listed on standard error.
 */
import { type Imported, importAws, importEnvoy, importGrpc } from "@redrive/core/interop";
import type { Command } from "commander";
import { readJson, readText, withFileName } from "../input/documents.ts";
import { addExamples } from "../input/flags.ts";
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
  type TargetFlags,
} from "./config-format-flags.ts";

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

export function presentImport(flags: ImportFlags): Presentation {
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
