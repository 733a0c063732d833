/** CSV is what RFC 4180 says it is, so that spreadsheets read it. */
import { expect, test } from "vitest";
import { csv } from "./csv.ts";

test("CSV quotes what needs it", () => {
  expect(
    csv([
      ["a", 1, undefined],
      ['say "hi"', "x,y", "two\nlines"],
    ]),
  ).toBe('a,1,\n"say ""hi""","x,y","two\nlines"\n');
});
