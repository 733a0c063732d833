/** Tests of headers as programs give them: every form arrives complete, or is refused. */
import { expect, it } from "vitest";
import { headerProblems, withPlainHeaders } from "./task.ts";

const headersOf = (headers: unknown) =>
  withPlainHeaders({ headers } as Parameters<typeof withPlainHeaders>[0]).headers;

it.each<[string, unknown]>([
  ["an object", { authorization: "Bearer a" }],
  ["a Headers", new Headers({ authorization: "Bearer a" })],
  ["a Map", new Map([["authorization", "Bearer a"]])],
  ["a list of pairs", [["authorization", "Bearer a"]]],
  ["an iterator", new Map([["authorization", "Bearer a"]]).entries()],
])("keeps the headers of %s", (_form, given) => {
  expect(headersOf(given)).toEqual({ authorization: "Bearer a" });
});

it.each<[unknown, string]>([
  [[["a", 1]], "headers must be [name, value] pairs of strings, got [string, number]"],
  [[["a"]], "got [string]"],
  ["ab".split(""), "got string"],
  [new Set([null]), "got null"],
  [new Uint8Array(2), "got number"],
  [
    [
      ["a", "secret"],
      ["a", "b"],
    ],
    'header "a" is given twice',
  ],
  [{ [Symbol.iterator]: endless }, "headers must be at most 100"],
])("refuses %o without quoting a value", (given, message) => {
  expect(() => headersOf(given)).toThrow(message);
  expect(() => headersOf(given)).not.toThrow("secret");
});

it.each<[unknown, string]>([
  [new Date(0), "headers must be an object of strings, a Headers, a Map or pairs, got Date"],
  [Promise.resolve({}), "got Promise"],
  ["a: b", "got string"],
  [null, "got null"],
])("leaves %o to the check, which refuses it", (given, message) => {
  expect(headerProblems(headersOf(given))[0]?.message).toContain(message);
});

it("accepts objects without a prototype", () => {
  const headers = Object.assign(Object.create(null), { a: "b" });
  expect(headerProblems(headersOf(headers))).toEqual([]);
});

function* endless() {
  for (let n = 0; ; n++) yield [`x-${n}`, "v"];
}
