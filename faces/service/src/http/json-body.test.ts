/**
 * Tests of JSON bodies: what is rejected before parsing, and which bytes of a task stay unchanged.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RawJson } from "../intake/task-input.ts";
import { arrayElements, ndjsonLines, parseJson, parseTaskJson } from "./json-body.ts";

const bytes = (text: string) => Buffer.from(text);
// Names that reach a prototype are rejected; other tests cover that.
const harmless = (maxDepth: number) =>
  fc
    .jsonValue({ maxDepth })
    .map((value) => JSON.stringify(value))
    .filter((text) => !/__proto__|constructor/.test(text));
const rawOf = (text: string) => {
  const { json } = parseTaskJson(bytes(text)) as { json: RawJson };
  expect(json).toBeInstanceOf(RawJson);
  return Buffer.from(json.bytes).toString();
};

describe("a JSON body", () => {
  it("is parsed like JSON.parse does", () => {
    fc.assert(
      fc.property(harmless(6), (text) => {
        expect(parseJson(bytes(text))).toEqual(JSON.parse(text));
      }),
    );
  });

  it("may be 64 deep and no deeper", () => {
    const nested = (depth: number) => bytes("[".repeat(depth) + "]".repeat(depth));
    expect(parseJson(nested(64))).toBeInstanceOf(Array);
    expect(() => parseJson(nested(65))).toThrow(/at most 64 levels deep/);
  });

  it("may have long arrays, but no objects with many keys", () => {
    const list = bytes(`[${Array(5000).fill("1").join()}]`);
    expect(parseJson(list)).toHaveLength(5000);
    const wide = bytes(
      JSON.stringify(Object.fromEntries(Array.from({ length: 201 }, (_, n) => [n, n]))),
    );
    expect(() => parseJson(wide)).toThrow(/at most 200 fields/);
  });

  it.each([
    '{"__proto__":1}',
    '{"a":[{"__proto__":1}]}',
    '{"\\u005f\\u005fproto__":1}',
    '{"constructor":{"prototype":{}}}',
  ])("refuses %s", (text) => {
    expect(() => parseJson(bytes(text))).toThrow(/unknown field/);
  });

  it("accepts harmless names", () => {
    expect(parseJson(bytes('{"a":"__proto__","constructor":"x"}'))).toEqual({
      a: "__proto__",
      constructor: "x",
    });
  });
});

describe("the json of a task", () => {
  it("is the exact bytes of its value", () => {
    fc.assert(
      fc.property(harmless(5), fc.constantFrom("", " ", "\n\t"), (json, blank) => {
        const text = `{"targetUrl":"x,{}:\\"",${blank}"json"${blank}:${blank}${json}${blank},"labels":{"json":"no"}}`;
        expect(rawOf(text)).toBe(json);
      }),
    );
  });

  it("is the last of several", () => {
    expect(rawOf('{"json":1,"json":[2, 3]}')).toBe("[2, 3]");
  });

  it("cannot be named with escapes", () => {
    expect(() => parseTaskJson(bytes('{"json":1,"js\\u006fn":2}'))).toThrow(/escapes/);
    expect(() => parseTaskJson(bytes('{"js\\u006fn":2}'))).toThrow(/escapes/);
  });

  it("may be wider than the rest", () => {
    const fields = Array.from({ length: 500 }, (_, n) => `"k${n}":1`).join();
    expect(rawOf(`{"json":{${fields}}}`)).toContain("k499");
    expect(() => parseTaskJson(bytes(`{"policy":{${fields}}}`))).toThrow(/at most 200/);
  });
});

describe("a batch", () => {
  it("is split without being parsed", () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue({ maxDepth: 3 }), { minLength: 1 }), (values) => {
        const parts = arrayElements(bytes(JSON.stringify(values, null, 1)));
        expect(parts.map((part) => JSON.parse(part.toString()))).toEqual(
          values.map((value) => JSON.parse(JSON.stringify(value))),
        );
      }),
    );
    expect(arrayElements(bytes(" [ ] "))).toEqual([]);
  });

  it.each(["{}", "[{}", "[{}] x", "[{}]]", ""])("refuses %j", (text) => {
    expect(() => arrayElements(bytes(text))).toThrow();
  });

  it("may be NDJSON", () => {
    expect(
      ndjsonLines(bytes('{"a":1}\r\n\n{"b":2}')).map((line) => JSON.parse(line.toString())),
    ).toEqual([{ a: 1 }, { b: 2 }]);
  });
});
