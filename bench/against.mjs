/**
 * Against: a benchmark of this checkout and of another one, in the same rounds. On a busy machine
 * two runs differ by more than most changes do; within one run both checkouts share the noise.
 */
import { resolve } from "node:path";

/** After a change nothing may cost more than this many times what it did before. */
export const MAX_RATIO = 1.05;

/** The root of the other checkout: what follows `--against`; undefined if it was not given. */
export function otherCheckout() {
  const at = process.argv.indexOf("--against");
  if (at < 0) return undefined;
  const path = process.argv[at + 1];
  if (path === undefined) throw new Error("--against needs the path of a built checkout");
  return resolve(path);
}
