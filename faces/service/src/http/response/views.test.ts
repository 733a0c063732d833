/** Views: what is shown of a task, and what is masked. */
import { expect, it } from "vitest";
import { maskQuery } from "./views.ts";

it.each([
  ["http://h/p", "http://h/p"],
  ["http://h/p?a=1&token=s%3Dx", "http://h/p?a=***&token=***"],
  ["http://h/p?flag", "http://h/p?flag"],
])("the values of a query are masked: %s", (url, masked) => {
  expect(maskQuery(url)).toBe(masked);
});
