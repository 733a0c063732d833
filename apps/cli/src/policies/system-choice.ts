/** Foreign choice: which other system's configuration is meant; one, and one only. */
import { RedriveError } from "@redrive/core";
import { type Command, Option } from "commander";

export const SYSTEMS = ["grpc", "aws", "envoy"] as const;
export type System = (typeof SYSTEMS)[number];

export interface TargetFlags {
  readonly profile?: string;
  readonly service?: string;
  readonly method?: string;
}

/** A flag each, with a value or without, of which one may be given. */
export function addSystemFlags(
  command: Command,
  value: string,
  words: Record<System, string>,
): Command {
  for (const system of SYSTEMS) {
    const others = SYSTEMS.filter((other) => other !== system);
    const flag = `--${system}${value === "" ? "" : ` ${value}`}`;
    command.addOption(new Option(flag, words[system]).conflicts([...others]));
  }
  return command
    .option("--profile <name>", "with --aws: whose settings (default: default)")
    .option("--service <name>", "with --grpc: for this service")
    .option("--method <name>", "with --grpc and --service: for this method");
}

export function chosenSystem(flags: Partial<Record<System, unknown>>): System {
  const system = SYSTEMS.find((one) => flags[one] !== undefined);
  if (system !== undefined) return system;
  const known = SYSTEMS.map((one) => `--${one}`).join(", ");
  throw new RedriveError("INVALID_ARGUMENT", `which system? Give one of ${known}`);
}

export function grpcTarget({ service, method }: TargetFlags): {
  service?: string;
  method?: string;
} {
  return { ...(service !== undefined && { service }), ...(method !== undefined && { method }) };
}
