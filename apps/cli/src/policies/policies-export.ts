/**
 * `redrive policies export`: a policy as gRPC, the AWS SDKs or Envoy would have it. What they have
 * no word for is told on the error stream.
 */
import { exportAws, exportEnvoy, exportGrpc } from "@redrive/core/interop";
import type { Command } from "commander";
import { addExamples } from "../input/flags.ts";
import { choosePolicy } from "../input/policy-choice.ts";
import { jsonLines } from "../print/json-lines.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import { addSystemFlags, chosenSystem, grpcTarget, type TargetFlags } from "./system-choice.ts";

interface ExportFlags extends OutputOptions, TargetFlags {
  readonly grpc?: boolean;
  readonly aws?: boolean;
  readonly envoy?: boolean;
  readonly preset?: string;
  readonly policy?: string;
}

export function addExport(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("export")
    .description("write a policy the way gRPC, the AWS SDKs or Envoy take it");
  addSystemFlags(command, "", {
    grpc: "as a gRPC service config",
    aws: "as a section of ~/.aws/config",
    envoy: "as the retry part of an Envoy route",
  });
  command.option("--preset <name>", "a policy that ships, or one of the catalogue");
  command.option("--policy <file>", "a policy or destination document; - is standard input");
  addOutputFlags(command, "json");
  addExamples(
    command,
    "redrive policies export --envoy --preset read",
    "redrive policies export --grpc --policy orders.json --service shop.Orders",
  );
  command.action((flags: ExportFlags) =>
    presentResult(terminal, flags, () => presentExport(flags)),
  );
}

interface Exported {
  readonly value: object | string;
  readonly notes: readonly string[];
}

export function presentExport(flags: ExportFlags): Presentation {
  const { value, notes } = exportFor(flags);
  const text = typeof value === "string" ? value.trimEnd() : jsonLines(value).join("\n");
  return { json: { [chosenSystem(flags)]: value, notes }, text: () => [text], notes };
}

function exportFor(flags: ExportFlags): Exported {
  const { document, guards } = choosePolicy(flags);
  const { profile } = flags;
  switch (chosenSystem(flags)) {
    case "grpc": {
      const { config, notes } = exportGrpc(document, guards, grpcTarget(flags));
      return { value: config, notes };
    }
    case "aws": {
      const target = profile === undefined ? {} : { profile };
      const { text, notes } = exportAws(document, guards, target);
      return { value: text, notes };
    }
    case "envoy": {
      const { config, notes } = exportEnvoy(document, guards);
      return { value: config, notes };
    }
  }
}
