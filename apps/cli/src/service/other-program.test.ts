/** The commands that call a service, against a program that answers JSON and is not Redrive. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { redrive } from "../program.testing.ts";

/** Echoes the request's body, as many demo servers do. */
const other = createServer((request, response) => {
  response.writeHead(200, { "content-type": "application/json" });
  if (request.method === "GET") response.end('{"ok":true}');
  else request.pipe(response);
});
let url: string;

beforeAll(async () => {
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
});
afterAll(() => {
  other.closeAllConnections();
  other.close();
});

const ID = "01a1e1b6-b1b2-7000-83d9-6258b3c1903d";

test.each([
  "tasks ls",
  `tasks get ${ID}`,
  `tasks retry ${ID}`,
  `tasks cancel ${ID}`,
  "tasks export",
  "tasks tail --for 1h",
  "explain",
  `explain ${ID}`,
  "dlq ls",
  "dlq ls --group",
  "dlq redrives",
  "dlq redrive --yes",
  "dlq purge --all --yes",
  "destinations ls",
  "destinations get shop",
  "destinations pause shop",
  "destinations resume shop",
  "policies ls",
  "policies get mine",
  "sim destination shop --outage 8s",
  "send http://127.0.0.1:1/echo",
  'send http://127.0.0.1:1/echo --body-json {"a":1}',
])("`%s` says that it is not a Redrive service", async (line) => {
  const { out, err, code } = await redrive(`${line} --url ${url}`);
  expect([out, err, code]).toEqual([
    "",
    expect.stringContaining(`url must be the address of a Redrive service, but "${url}" returned`),
    2,
  ]);
});
