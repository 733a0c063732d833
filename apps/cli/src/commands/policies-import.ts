/**
 * `redrive policies import`: the retry settings of gRPC, the AWS SDKs or Envoy as a destination
 * document. What could not be kept is told on the error stream, so that the output is a document.
 */
import { type Imported, importAws, importEnvoy, importGrpc } from "@redrive/core/interop";
import type { Command } from "commander";
import { naming, readJson, readText } from "../documents.ts";
import { addExamples } from "../flags.ts";
import { addSystems, grpcTarget, systemOf, type TargetFlags } from "../foreign-choice.ts";
import { addOutput, finish, type OutputOptions, type Presentation } from "../presentation.ts";
import type { Screen } from "../screen.ts";
import { jsonLines } from "../terminal/json-lines.ts";

interface ImportFlags extends OutputOptions, TargetFlags {
  readonly grpc?: string;
  readonly aws?: string;
  readonly envoy?: string;
}

export function addImport(parent: Command, screen: Screen): void {
  const command = parent
    .command("import")
    .description("turn another system's retry settings into a destination document");
  addSystems(command, "<file>", {
    grpc: "a gRPC service config (JSON)",
    aws: "an AWS config file, such as ~/.aws/config",
    envoy: "an Envoy route or retry policy (JSON)",
  });
  addOutput(command, "json");
  addExamples(
    command,
    "redrive policies import --grpc service-config.json > orders.json",
    "redrive policies import --aws ~/.aws/config --profile production",
  );
  command.action((flags: ImportFlags) => finish(screen, flags, () => presentImport(flags)));
}

export function presentImport(flags: ImportFlags): Presentation {
  const { policy, destination, notes } = readForeign(flags);
  const document = { policy, ...destination };
  return {
    json: { policy, destination, notes },
    text: () => jsonLines(document),
    notes,
  };
}

function readForeign(flags: ImportFlags): Imported {
  const system = systemOf(flags);
  const path = flags[system] ?? "-";
  const { profile } = flags;
  switch (system) {
    case "grpc":
      return naming(path, () => importGrpc(readJson(path), grpcTarget(flags)));
    case "aws":
      return naming(path, () =>
        importAws(readText(path), profile === undefined ? {} : { profile }),
      );
    case "envoy":
      return naming(path, () => importEnvoy(readJson(path)));
  }
}
