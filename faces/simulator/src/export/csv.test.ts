/** CSV follows RFC 4180, so spreadsheets can read it. */
import { expect, test } from "vitest";
import { csv } from "./csv.ts";

test("CSV quotes fields that need it", () => {
  expect(
    csv([
      ["a", 1, undefined],
      ['say "hi"', "x,y", "two\nlines"],
    ]),
  ).toBe('a,1,\n"say ""hi""","x,y","two\nlines"\n');
});
