/** Tests of the order of operations in the API description. */
import { expect, test } from "vitest";
import { inReadingOrder } from "./service-routes.ts";

test("a collection comes before its items and they before other operations, and creating before reading", () => {
  const paths = {
    "/tasks/{id}/body": { get: {} },
    "/tasks/{id}": { delete: {}, get: {} },
    "/keys": { get: {} },
    "/tasks/count": { get: {} },
    "/tasks": { parameters: [], patch: {}, get: {}, post: {} },
  };
  const { paths: sorted, ...others } = inReadingOrder({ openapi: "3.1.0", paths });
  const lines = Object.entries(sorted).map(([path, item]) => `${Object.keys(item)} ${path}`);
  expect(lines).toEqual([
    "post,get,parameters,patch /tasks",
    "get,delete /tasks/{id}",
    "get /tasks/{id}/body",
    "get /tasks/count",
    "get /keys",
  ]);
  expect(others).toEqual({ openapi: "3.1.0" });
});
