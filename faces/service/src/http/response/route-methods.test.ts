/** Known paths: a wrong method is told from a wrong path. */
import { expect, it } from "vitest";
import { RouteMethods } from "./route-methods.ts";

it("knows the methods of a path, with parameters and without", () => {
  const paths = new RouteMethods();
  paths.add("/tasks", ["POST"]);
  paths.add("/tasks", "GET");
  paths.add("/tasks/:id", "DELETE");
  paths.add("/a.json", "GET");
  expect(paths.methodsOf("/tasks?x=1")).toEqual(["GET", "POST"]);
  expect(paths.methodsOf("/tasks/1")).toEqual(["DELETE"]);
  expect(paths.methodsOf("/tasks/1/2")).toEqual([]);
  expect(paths.methodsOf("/aXjson")).toEqual([]);
});
