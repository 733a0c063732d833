/**
 * `redrive policies export`: a policy as gRPC, the AWS SDKs or Envoy would have it. What they have
 * no word for is told on the error stream.
 */
import { exportAws, exportEnvoy, exportGrpc } from "@redrive/core/interop";
import type { Command } from "commander";
import { addExamples } from "../flags.ts";
import { addSystems, grpcTarget, systemOf, type TargetFlags } from "../foreign-choice.ts";
import { choosePolicy } from "../policy-choice.ts";
import { addOutput, finish, type OutputOptions, type Presentation } from "../presentation.ts";
import type { Screen } from "../screen.ts";
import { jsonLines } from "../terminal/json-lines.ts";

interface ExportFlags extends OutputOptions, TargetFlags {
  readonly grpc?: boolean;
  readonly aws?: boolean;
  readonly envoy?: boolean;
  readonly preset?: string;
  readonly policy?: string;
}

export function addExport(parent: Command, screen: Screen): void {
  const command = parent
    .command("export")
    .description("write a policy the way gRPC, the AWS SDKs or Envoy take it");
  addSystems(command, "", {
    grpc: "as a gRPC service config",
    aws: "as a section of ~/.aws/config",
    envoy: "as the retry part of an Envoy route",
  });
  command.option("--preset <name>", "a policy that ships, or one of the catalogue");
  command.option("--policy <file>", "a policy or destination document; - is standard input");
  addOutput(command, "json");
  addExamples(
    command,
    "redrive policies export --envoy --preset read",
    "redrive policies export --grpc --policy orders.json --service shop.Orders",
  );
  command.action((flags: ExportFlags) => finish(screen, flags, () => presentExport(flags)));
}

interface Exported {
  readonly value: object | string;
  readonly notes: readonly string[];
}

export function presentExport(flags: ExportFlags): Presentation {
  const { value, notes } = writeForeign(flags);
  const text = typeof value === "string" ? value.trimEnd() : jsonLines(value).join("\n");
  return { json: { [systemOf(flags)]: value, notes }, text: () => [text], notes };
}

function writeForeign(flags: ExportFlags): Exported {
  const { document, guards } = choosePolicy(flags);
  const { profile } = flags;
  switch (systemOf(flags)) {
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
