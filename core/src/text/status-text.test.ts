/** Tests of the texts of stored statuses. */
import { expect, test } from "vitest";
import { statusText } from "./status-text.ts";

test("an HTTP status is a number, and a gRPC code has a name", () => {
  expect([200, 503, 0, 14, 16, 17].map(statusText)).toEqual([
    "200",
    "503",
    "OK",
    "UNAVAILABLE",
    "UNAUTHENTICATED",
    "17",
  ]);
});
