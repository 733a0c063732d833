/** Tests of the message of whatever was thrown. */
import { expect, test } from "vitest";
import { messageOf } from "./errors.ts";

test.each([
  ["an error", new Error("no space"), "no space"],
  ["an error without a message", Object.assign(new TypeError("x"), { message: "" }), "TypeError"],
  ["an error of several addresses", new AggregateError([new Error("a"), "b"], "all"), "a; b"],
  ["an error of no parts", new AggregateError([], "nothing to try"), "nothing to try"],
  ["a text", "closed", "closed"],
  ["nothing", undefined, "undefined"],
])("the message of %s", (_, thrown, message) => {
  expect(messageOf(thrown)).toBe(message);
});
