/** Tests that an address leads to its page, with and without a service. */
import { expect, test } from "vitest";
import { menuPageOf, pageNames, pageOf } from "./pages.ts";

const at = (pathname: string, hash = "") => ({ pathname, hash });

test("every page has its own address under a service, in any folder", () => {
  for (const name of pageNames) {
    expect(pageOf(at(`/ui/${name}`), true)).toBe(name);
    expect(pageOf(at(`/proxy/ui/${name}.html`), true)).toBe(name);
  }
});

test("the folder is the overview, and a link to a simulation opens the simulator", () => {
  expect(pageOf(at("/ui/"), true)).toBe("overview");
  expect(pageOf(at("/ui/index.html"), true)).toBe("overview");
  expect(pageOf(at("/ui/", "#1.abc"), true)).toBe("simulator");
});

test("a static host has only the simulator", () => {
  expect(pageOf(at("/folder/"), false)).toBe("simulator");
  expect(pageOf(at("/folder/tasks.html"), false)).toBe("simulator");
});

test("a detail page belongs to the menu entry of its list", () => {
  expect(menuPageOf("task")).toBe("tasks");
  expect(menuPageOf("destination")).toBe("destinations");
  expect(menuPageOf("redrives")).toBe("redrives");
});
