/** Rows 12 to 19 of the table of hostile targets, at the deliverer. */
import { FRAME_ROWS, GRAMMAR_ROWS } from "./hostile-grammar-rows.testing.ts";
import { describeRows } from "./hostile-rows.testing.ts";

describeRows("a target that speaks no HTTP", GRAMMAR_ROWS);
describeRows("a target that frames its answer wrongly", FRAME_ROWS);
