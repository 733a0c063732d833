/** Failure: how the commands in tools/ end when a step of theirs has failed. */
import { SetupFailed } from "./command.mjs";

/**
 * Runs `work`; a failed command ends the process with its reason in one line and exit code 1.
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
