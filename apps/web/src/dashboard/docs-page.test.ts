/** Tests that the OpenAPI document is read, whatever is missing in it. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { curlOf, readDocs, searched } from "./docs-page.tsx";

const schema = (fields: object) => ({ content: { "application/json": { schema: fields } } });
const docs = readDocs({
  info: { description: "About.", "x-problems": [{ code: "NOT_FOUND", status: 404, title: "No" }] },
  paths: {
    "/tasks/{taskId}": {
      summary: "One task",
      parameters: [{ name: "verbose" }],
      get: {
        tags: ["tasks"],
        summary: "Get a task",
        parameters: [{ name: "taskId", required: true, schema: { type: "string" } }],
        responses: {
          200: schema({ properties: { at: { anyOf: [{ type: "integer" }, { type: "null" }] } } }),
        },
      },
      post: {
        tags: ["tasks"],
        summary: "Make one",
        requestBody: schema({
          required: ["url"],
          properties: {
            url: { type: "string" },
            list: { type: "array", items: { enum: ["a", 1] } },
          },
        }),
      },
    },
    "/keys": { delete: { tags: ["settings"], summary: "Revoke" } },
  },
});

test("operations are grouped by tag, with their fields and problems", () => {
  expect(docs.groups.map(({ tag, operations }) => [tag, operations.length])).toEqual([
    ["tasks", 2],
    ["settings", 1],
  ]);
  const [get, post] = docs.groups[0]?.operations ?? [];
  expect(get).toMatchObject({
    method: "GET",
    statuses: ["200"],
    response: [{ type: "integer | null" }],
  });
  expect(post?.body).toMatchObject([
    { name: "url", isRequired: true },
    { name: "list", type: "list of a | 1", isRequired: false },
  ]);
  expect(docs.problems).toEqual([{ code: "NOT_FOUND", status: 404, title: "No" }]);
});

test("a search finds paths, summaries and tags", () => {
  const paths = (text: string) =>
    searched(docs, text).flatMap(({ operations }) => operations.map(({ method }) => method));
  expect(paths("REVOKE")).toEqual(["DELETE"]);
  expect(paths("get /tasks")).toEqual(["GET"]);
  expect(paths("nothing")).toEqual([]);
  expect(paths("")).toHaveLength(3);
});

test("each operation has a command", () => {
  const [get, post] = docs.groups[0]?.operations ?? [];
  expect(get && curlOf(get, "http://x/")).toBe("curl 'http://x/tasks/{taskId}'");
  expect(post && curlOf(post, "http://x/")).toBe(
    "curl --json '{ \"url\": … }' 'http://x/tasks/{taskId}'",
  );
});

test("any JSON is read without an error", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(readDocs(value)).toHaveProperty("groups");
      expect(readDocs({ paths: { "/x": { get: value } }, info: value })).toHaveProperty("groups");
    }),
  );
});
