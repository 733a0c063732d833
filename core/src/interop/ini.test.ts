/** Tests of the INI parser for `~/.aws/config`. */
import { expect, test } from "vitest";
import { parseIni } from "./ini.ts";

const valuesOf = (text: string, heading = "a") =>
  Object.fromEntries(parseIni(text).get(heading) ?? []);

test("reads sections with their values, with any line breaks", () => {
  const text = "[a]\nx=1\r\ny = two words \r[ b ]  ; of others\nx=3";
  expect(valuesOf(text)).toEqual({ x: "1", y: "two words" });
  expect(valuesOf(text, "b")).toEqual({ x: "3" });
});

test("ignores comments, blank lines and indented blocks", () => {
  expect(valuesOf("# one\n; two\n\n[a]\ns3 =\n  x = 1\n\ty = 2\n   # three\nz = 3")).toEqual({
    s3: "",
    z: "3",
  });
});

test("removes a comment from a value only after a blank", () => {
  expect(valuesOf("[a]\nx = 1 # one\ny = 2#two\nz = 3 ;three")).toEqual({
    x: "1",
    y: "2#two",
    z: "3",
  });
});

test("the last of several equal names counts, also in a section that starts twice", () => {
  expect(valuesOf("[a]\nX=1\nx=2\n[b]\n[a]\ny=3")).toEqual({ x: "2", y: "3" });
});

test.each([
  ["[a]\n=1", 'line 2 must be a [section] or name = value, got "=1"'],
  ["[a", 'line 1 must be a [section] or name = value, got "[a"'],
  ["x=1", 'line 1 must come after a [section], got "x=1"'],
])("refuses %j", (text, message) => {
  expect(() => parseIni(text)).toThrow(message);
});
