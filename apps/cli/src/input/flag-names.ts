/**
 * Flag names: puts the flags of a command into error messages of the service, which name the fields of
 * its API. A user of the command line has never seen those.
 */
import { causedError, RedriveError } from "@redrive/core";

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
