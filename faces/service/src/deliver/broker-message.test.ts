/** Tests of the user and the password in the header `Authorization`. */
import { describe, expect, it } from "vitest";
import { loginIn, parseBasic } from "./broker-message.ts";

const basic = (text: string | Buffer) => `Basic ${Buffer.from(text).toString("base64")}`;

describe("a login", () => {
  it.each([
    ["guest:guest", "guest", "guest"],
    [":only-a-password", "", "only-a-password"],
    ["user:", "user", ""],
    ["a:b:c", "a", "b:c"],
    ["jürgen:schlüssel", "jürgen", "schlüssel"],
  ])("%j has a user and a password", (text, user, password) => {
    expect(parseBasic(basic(text))).toEqual({ user, password });
    expect(parseBasic(basic(text).replace("Basic", "BASIC "))).toEqual({ user, password });
  });

  it.each([
    "",
    "Basic",
    "Bearer abc",
    "Basic !!!",
    basic("no colon"),
    basic("nul:\0"),
    basic("a:b\r\nQUIT\r\n"),
    basic(Buffer.from([0xff, 0x3a, 0xfe])),
    `${basic("a:b")}, ${basic("c:d")}`,
  ])("%j is not valid", (value) => {
    expect(parseBasic(value)).toBeNull();
  });

  it("is in a header of any case", () => {
    expect(loginIn({ AUTHORIZATION: basic("a:b") })).toEqual({ user: "a", password: "b" });
    expect(loginIn({ "x-authorization": basic("a:b") })).toBeUndefined();
  });
});
