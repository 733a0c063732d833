/** Tests of route methods: a wrong method differs from a wrong path. */
import { expect, it } from "vitest";
import { RouteMethods } from "./server.ts";

it("returns the methods of a path, with and without parameters", () => {
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
