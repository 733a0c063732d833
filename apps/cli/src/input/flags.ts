/**
 * Flags: texts of the command line turned into values once, at the edge. Whatever is wrong, the
 * message quotes the value, and commander puts the flag's name before it.
 */
import { nearestName, parseDuration, quote } from "@redrive/core";
import { formatInteger } from "@redrive/simulator/words";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Seed } from "../print/presentation.ts";

/** A span such as "200ms" or "20s", in whole milliseconds. */
export function durationFlag(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  const hint = /^\d+(?:\.\d+)?$/u.test(text) ? ` Did you mean "${text}ms" or "${text}s"?` : "";
  throw new InvalidArgumentError(`Must be a duration such as "200ms", "20s" or "1.5h".${hint}`);
}

/** A whole number from `min` to `max`; "10,000" and "10_000" are 10000. */
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

/** 0 stands for any free one. */
export function portFlag(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/u.test(text) && port <= 65_535) return port;
  throw new InvalidArgumentError("Must be 0 to 65535.");
}

export function numberFlag(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+(?:\.\d+)?$/u.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Must be a number from ${min} to ${max}.`);
  };
}

/** One of several words. */
export function choiceFlag<Word extends string>(...known: readonly Word[]): (text: string) => Word {
  return (text) => {
    if (known.includes(text as Word)) return text as Word;
    throw new InvalidArgumentError(`Must be one of ${known.join(", ")}.${didYouMean(text, known)}`);
  };
}

/** " Did you mean x?", or nothing. */
export function didYouMean(text: string, known: readonly string[]): string {
  const near = nearestName(text, known);
  return near === undefined ? "" : ` Did you mean ${quote(near)}?`;
}

/** Digits count as a number; any other word is a seed too. */
export function seedFlag(text: string): Seed {
  if (/^\d{1,15}$/u.test(text)) return Number(text);
  if (/^[\w.-]{1,64}$/u.test(text)) return text;
  throw new InvalidArgumentError("Must be a number, or a word of A-Z a-z 0-9 . _ -");
}

export const DEFAULT_SEED = 1;

export function addSeedFlag(command: Command): Command {
  return command.option("--seed <seed>", "where chance begins", seedFlag, DEFAULT_SEED);
}

/** The outage of a database failover: what most stories here are about. */
const FAILOVER_MS = 8000;

export function addOutageFlag(command: Command, text: string): Command {
  const option = new Option("--outage <span>", text).argParser(durationFlag);
  return command.addOption(option.default(FAILOVER_MS, "8s"));
}

/** Examples at the end of a command's help. */
export function addExamples(command: Command, ...lines: readonly string[]): Command {
  return command.addHelpText(
    "after",
    `\nExamples:\n${lines.map((line) => `  ${line}\n`).join("")}`,
  );
}
