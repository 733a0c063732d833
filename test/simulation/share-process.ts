/** Share process: runs a share of the seeds in a process of its own, for `tools/simulate.mjs`. */
import { runShare } from "./seed-share.ts";

const [share = 0, shares = 1] = process.argv.slice(2).map(Number);
await runShare(share, shares);
