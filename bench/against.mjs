/**
 * Against: measures this checkout and another one in the same rounds. On a busy machine, two runs
 * differ by more than most changes do; within one run, both checkouts have the same noise.
 */
import { resolve } from "node:path";

/** After a change, nothing may cost more than this factor of its previous cost. */
export const MAX_RATIO = 1.05;

/** The root of the other checkout, from `--against`. Undefined without that option. */
export function otherCheckout() {
  const at = process.argv.indexOf("--against");
  if (at < 0) return undefined;
  const path = process.argv[at + 1];
  if (path === undefined) throw new Error("--against needs the path of a built checkout");
  return resolve(path);
}
