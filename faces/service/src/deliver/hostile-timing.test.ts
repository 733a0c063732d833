/** Rows 1 to 11, 36 and 37 of the table of hostile targets, at the deliverer. */
import { describeRows } from "./hostile-rows.testing.ts";
import { LENGTH_ROWS, TIMING_ROWS } from "./hostile-timing-rows.testing.ts";

describeRows("a target that keeps silent, dawdles or hangs up", TIMING_ROWS);
describeRows("a target that sends too much", LENGTH_ROWS);
