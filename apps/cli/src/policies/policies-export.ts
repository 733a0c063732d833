/**
 * `redrive policies export`: converts a policy to the format of gRPC, the AWS SDKs or Envoy. What
 * cannot be converted is listed on standard error.
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
import {
  addSystemFlags,
  chosenSystem,
  grpcTarget,
  type TargetFlags,
} from "./config-format-flags.ts";

interface ExportFlags extends OutputOptions, TargetFlags {
  readonly grpc?: boolean;
  readonly aws?: boolean;
  readonly envoy?: boolean;
  readonly preset?: string;
  readonly policyFile?: string;
}

export function addExport(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("export")
    .description("Convert a policy to the format of gRPC, the AWS SDKs or Envoy.");
  addSystemFlags(command, "", {
    grpc: "write a gRPC service config",
    aws: "write a section of ~/.aws/config",
    envoy: "write the retry policy of an Envoy route",
  });
  command.option("--preset <name>", "a preset or a catalog entry");
  command.option(
    "--policy-file <file>",
    "a policy or destination document; - reads standard input",
  );
  addOutputFlags(command, "json");
  addExamples(
    command,
    "redrive policies export --envoy --preset read",
    "redrive policies export --grpc --policy-file orders.json --service shop.Orders",
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
