/** Failure: ends a command in tools/ when one of its steps has failed. */
import { SetupFailed } from "./command.mjs";

/**
 * Runs `work`. If a command fails, prints the reason and exits with 1.
 * @template T
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function exitOnFailure(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SetupFailed)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
}
