/** Tests that hidden characters become visible and all others stay. */
import { expect, test } from "vitest";
import { visibleText } from "./visible-text.ts";

test("a right-to-left override and control characters become visible", () => {
  expect(visibleText("a\u202egpj.exe")).toBe("a⟨U+202E⟩gpj.exe");
  expect(visibleText("\u0000\u001b[31m")).toBe("⟨U+0000⟩⟨U+001B⟩[31m");
});

test("plain text, line breaks and other scripts stay", () => {
  const text = "line 1\n\tline 2 <b> שלום 日本 🙂";
  expect(visibleText(text)).toBe(text);
});
