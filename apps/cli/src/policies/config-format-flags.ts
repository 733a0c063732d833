/**
 * Config format flags: the flags that select the configuration format of another system, exactly one.
 */
import { RedriveError } from "@redrive/core";
import { type Command, Option } from "commander";

export const SYSTEMS = ["grpc", "aws", "envoy"] as const;
export type System = (typeof SYSTEMS)[number];

export interface TargetFlags {
  readonly profile?: string;
  readonly service?: string;
  readonly method?: string;
}

/** Adds one flag per system, with or without a value. The flags exclude each other. */
export function addSystemFlags(
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
export function chosenSystem(
  flags: Partial<Record<System, unknown>>,
  more: readonly string[] = [],
): System {
  const system = SYSTEMS.find((one) => flags[one] !== undefined);
  if (system !== undefined) return system;
  const known = [...SYSTEMS, ...more].map((one) => `--${one}`).join(", ");
  throw new RedriveError("INVALID_ARGUMENT", `no system given: use one of ${known}`);
}

export function grpcTarget({ service, method }: TargetFlags): {
  service?: string;
  method?: string;
} {
  return { ...(service !== undefined && { service }), ...(method !== undefined && { method }) };
}
