/**
 * Flags: parses the values of command-line flags. Commander adds the flag's name and the value to
 * every error message.
 */
import {
  causedError,
  formatInteger,
  nearestName,
  parseDuration,
  quote,
  RedriveError,
} from "@redrive/core";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Seed } from "./presentation.ts";

/** Parses a duration such as "200ms" or "20s" into whole milliseconds. */
export function durationFlag(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  const hint = /^\d+(?:\.\d+)?$/u.test(text) ? ` Did you mean "${text}ms" or "${text}s"?` : "";
  throw new InvalidArgumentError(`Must be a duration such as "200ms", "20s" or "1.5h".${hint}`);
}

/** Parses a duration in a range, such as "1s" to "10m". */
export function durationFlagFrom(min: string, max: string): (text: string) => number {
  const [minMs, maxMs] = [durationFlag(min), durationFlag(max)];
  return (text) => {
    const ms = durationFlag(text);
    if (ms >= minMs && ms <= maxMs) return ms;
    throw new InvalidArgumentError(`Must be a duration from ${min} to ${max}.`);
  };
}

/** Parses a whole number from `min` to `max`. Accepts "10,000" and "10_000" for 10000. */
export function integerFlag(min: number, max: number): (text: string) => number {
  return (text) => {
    const digits = text.replace(/(?<=\d)[_,](?=\d{3})/gu, "");
    const value = /^\d{1,15}$/u.test(digits) ? Number(digits) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(
      `Must be a whole number from ${formatInteger(min)} to ${formatInteger(max)}.`,
    );
  };
}

/** Parses a port. 0 means any free port. */
export function portFlag(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/u.test(text) && port <= 65_535) return port;
  throw new InvalidArgumentError("Must be a port from 0 to 65535.");
}

export function numberFlag(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+(?:\.\d+)?$/u.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Must be a number from ${min} to ${max}.`);
  };
}

/** Parses one of several words. */
export function choiceFlag<Choice extends string>(
  ...known: readonly Choice[]
): (text: string) => Choice {
  return (text) => {
    if (known.includes(text as Choice)) return text as Choice;
    throw new InvalidArgumentError(`Must be one of ${known.join(", ")}.${didYouMean(text, known)}`);
  };
}

/** Returns " Did you mean x?", or an empty string if no known name is close. */
export function didYouMean(text: string, known: readonly string[]): string {
  const near = nearestName(text, known);
  return near === undefined ? "" : ` Did you mean ${quote(near)}?`;
}

/** Parses a seed: a number if it has only digits, else a word. */
export function seedFlag(text: string): Seed {
  if (/^\d{1,15}$/u.test(text)) return Number(text);
  if (/^[\w.-]{1,64}$/u.test(text)) return text;
  throw new InvalidArgumentError("Must be a number, or a word of the characters A-Z a-z 0-9 . _ -");
}

export const DEFAULT_SEED = 1;

export function addSeedFlag(command: Command): Command {
  return command.option("--seed <seed>", "seed of the random numbers", seedFlag, DEFAULT_SEED);
}

/** The default outage: a typical database failover. */
const FAILOVER_MS = 8000;

export function addOutageFlag(command: Command, text: string): Command {
  const option = new Option("--outage <duration>", text).argParser(durationFlag);
  return command.addOption(option.default(FAILOVER_MS, "8s"));
}

/** Adds examples to the end of a command's help. */
export function addExamples(command: Command, ...lines: readonly string[]): Command {
  return command.addHelpText(
    "after",
    `\nExamples:\n${lines.map((line) => `  ${line}\n`).join("")}`,
  );
}

// Flag names: puts the flags of a command into error messages of the service, which name the fields
// of its API. A user of the command line has never seen those.

/** Runs `work`. In the message of its error, replaces fields by the flags that set them. */
export async function withFlagNames<T>(
  flagByField: Readonly<Record<string, string>>,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RedriveError)) throw error;
    throw causedError(error.code, flagNamesIn(error.message, flagByField), error);
  }
}

/** A text in quotes, a field at the start of a message, or any word in camel case. */
const PARTS = /"(?:[^"\\]|\\.)*"|(?:^|(?<=; ))[a-z]\w*|\b[a-z]+[A-Z]\w*/gu;

/** Replaces fields outside quotes, so that values stay as the user typed them. */
export function flagNamesIn(
  message: string,
  flagByField: Readonly<Record<string, string>>,
): string {
  return message.replace(PARTS, (part) =>
    Object.hasOwn(flagByField, part) ? (flagByField[part] ?? part) : part,
  );
}
