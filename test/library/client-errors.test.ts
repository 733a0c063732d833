/**
 * Client errors: how `retry` and a destination classify the errors of common clients. The real
 * packages throw them, with their own retries off, against real servers on loopback. No test waits:
 * it reads the planned retry from the event and aborts the call.
 */
// needs: postgres
import { GetCallerIdentityCommand, STSClient } from "@aws-sdk/client-sts";
import * as grpc from "@grpc/grpc-js";
import axios from "axios";
import got from "got";
import ky from "ky";
import OpenAI from "openai";
import pg from "pg";
import { type CallEvent, destination, type RunOptions, retry } from "redrive";
import { Agent, interceptors, request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type PostgresServer, startPostgres } from "../servers/postgres.ts";
import {
  type ScriptedResponse,
  type ScriptedServer,
  script,
  scriptedServer,
} from "./scripted-server.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

type Operation = () => Promise<unknown>;

/** What `retry` does after the first attempt: the retry it plans, or the reason to give up. */
type Plan =
  | {
      readonly delayMs: number;
      readonly source: "retry-after" | "policy";
      readonly verdict: string;
    }
  | { readonly reason: string; readonly verdict: string };

const POLICY = { jitterType: "NONE", initialDelayMs: 100, totalBudgetMs: 3_600_000 } as const;

/** Runs `run` until it plans a retry or gives up, and aborts it there. */
async function planOf(run: (options: RunOptions<unknown>) => Promise<unknown>): Promise<Plan> {
  const controller = new AbortController();
  const events: CallEvent[] = [];
  const onEvent = (event: CallEvent) => {
    events.push(event);
    if (event.type === "retry") controller.abort(new Error("the plan is known"));
  };
  await run({ signal: controller.signal, onEvent }).then(
    () => expect.unreachable("the call must fail"),
    () => undefined,
  );
  const [failed, next] = events;
  if (failed?.type !== "attempt-failed") throw new Error(`no failure: ${failed?.type}`);
  const { verdict } = failed;
  if (next?.type === "give-up") return { reason: next.reason, verdict };
  if (next?.type !== "retry") throw new Error(`no plan: ${next?.type}`);
  const { delayMs, source } = next;
  return { delayMs, source: source as "policy", verdict };
}

async function expectPlan(operation: Operation, expected: Plan): Promise<void> {
  expect(await planOf((options) => retry(operation, { ...POLICY, ...options }))).toEqual(expected);
  const shop = destination("shop", { policy: POLICY, retryBudget: false });
  expect(await planOf((options) => shop.run(operation, options))).toEqual(expected);
}

async function serverWith(response: ScriptedResponse): Promise<ScriptedServer> {
  const server = await scriptedServer(script(response));
  closers.push(() => server.close());
  return server;
}

const CREDENTIALS = { accessKeyId: "id", secretAccessKey: "secret" };

/** Each client calls an address with its own retries off. */
const clients: Readonly<
  Record<string, (origin: string, signal?: AbortSignal) => Promise<unknown>>
> = {
  axios: (origin, signal) => axios.get(origin, signal ? { signal } : {}),
  got: (origin, signal) => got(origin, { retry: { limit: 0 }, ...(signal && { signal }) }),
  ky: (origin, signal) => ky(origin, { retry: 0, ...(signal && { signal }) }),
  undici: (origin, signal) => {
    const dispatcher = new Agent().compose(interceptors.responseError());
    return request(origin, { dispatcher, ...(signal && { signal }) });
  },
  openai: (origin, signal) =>
    new OpenAI({ apiKey: "key", baseURL: origin, maxRetries: 0 }).models.list(signal && { signal }),
  aws: (origin, signal) => {
    const client = new STSClient({
      endpoint: origin,
      region: "eu-central-1",
      credentials: CREDENTIALS,
      maxAttempts: 1,
    });
    const command = new GetCallerIdentityCommand({});
    return client.send(command, signal ? { abortSignal: signal } : {});
  },
};

const inHalfAnHour = new Date(Math.ceil(Date.now() / 1000) * 1000 + 1_800_000);
const halfAMinuteBefore = new Date(inHalfAnHour.getTime() - 30_000);

const responses: readonly (readonly [string, ScriptedResponse, Plan])[] = [
  [
    "503 with Retry-After: 30",
    { status: 503, headers: { "Retry-After": "30" } },
    { delayMs: 30_000, source: "retry-after", verdict: "transient" },
  ],
  [
    "429 with Retry-After: 7",
    { status: 429, headers: { "retry-after": "7" } },
    { delayMs: 7000, source: "retry-after", verdict: "throttled" },
  ],
  [
    "503 with an HTTP-date, relative to the response's own Date",
    {
      status: 503,
      headers: { "Retry-After": inHalfAnHour.toUTCString(), Date: halfAMinuteBefore.toUTCString() },
    },
    { delayMs: 30_000, source: "retry-after", verdict: "transient" },
  ],
  [
    "429 with retry-after-ms",
    { status: 429, headers: { "retry-after-ms": "1500", "retry-after": "2" } },
    { delayMs: 1500, source: "retry-after", verdict: "throttled" },
  ],
  [
    "503 with an invalid Retry-After",
    { status: 503, headers: { "Retry-After": "soon" } },
    { delayMs: 100, source: "policy", verdict: "transient" },
  ],
  ["503", { status: 503 }, { delayMs: 100, source: "policy", verdict: "transient" }],
  [
    "404 with Retry-After, which is not retried",
    { status: 404, headers: { "Retry-After": "30" } },
    { reason: "not-retryable", verdict: "terminal" },
  ],
  ["400", { status: 400 }, { reason: "not-retryable", verdict: "terminal" }],
];

describe.each(Object.keys(clients))("%s", (name) => {
  const call = clients[name]!;

  test.each(responses)("%s", async (_, response, expected) => {
    const { origin } = await serverWith(response);
    await expectPlan(() => call(origin), expected);
  });

  test("no connection", async () => {
    const server = await scriptedServer(script({ status: 200 }));
    await server.close();
    const expected = { delayMs: 100, source: "policy", verdict: "transient" } as const;
    await expectPlan(() => call(server.origin), expected);
  });
});

describe("an abort by a signal that is not the call's is a timeout of the client", () => {
  test.each(["axios", "got", "ky", "undici", "aws"])("%s", async (name) => {
    const server = await scriptedServer(() => undefined);
    closers.push(() => server.close());
    const operation = () => clients[name]!(server.origin, AbortSignal.abort());
    await expectPlan(operation, { delayMs: 100, source: "policy", verdict: "transient" });
  });
});

describe("an abort by the signal of the call is not retried", () => {
  test.each(["axios", "got", "ky", "undici", "aws"])("%s", async (name) => {
    const server = await scriptedServer(() => {
      controller.abort(new Error("the user left"));
      return undefined;
    });
    closers.push(() => server.close());
    const controller = new AbortController();
    const { signal } = controller;
    const call = retry(() => clients[name]!(server.origin, signal), { signal });
    await expect(call).rejects.toThrow("the user left");
    expect(server.received).toHaveLength(1);
  });
});

describe("AWS errors that say more than their status", () => {
  const failing = (code: string, status = 400): ScriptedResponse => ({
    status,
    headers: { "content-type": "text/xml" },
    body: `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>no</Message></Error><RequestId>1</RequestId></ErrorResponse>`,
  });

  test.each([
    ["Throttling", { delayMs: 100, source: "policy", verdict: "throttled" }],
    ["TooManyRequestsException", { delayMs: 100, source: "policy", verdict: "throttled" }],
    // The client models this error with an empty `$retryable`.
    ["IDPCommunicationError", { delayMs: 100, source: "policy", verdict: "transient" }],
    ["ValidationError", { reason: "not-retryable", verdict: "terminal" }],
  ] as const)("%s with status 400", async (code, expected) => {
    const { origin } = await serverWith(failing(code));
    await expectPlan(() => clients["aws"]!(origin), expected);
  });
});

describe("grpc-js", () => {
  const bytes = (value: Buffer) => value;
  const method = {
    path: "/test.Test/Call",
    requestStream: false,
    responseStream: false,
    requestSerialize: bytes,
    requestDeserialize: bytes,
    responseSerialize: bytes,
    responseDeserialize: bytes,
  } as const;

  async function callFailingWith(code: grpc.status, pushback?: string): Promise<Operation> {
    const server = new grpc.Server();
    server.addService(
      { call: method },
      {
        call: (_: unknown, callback: grpc.sendUnaryData<Buffer>) => {
          const metadata = new grpc.Metadata();
          if (pushback !== undefined) metadata.set("grpc-retry-pushback-ms", pushback);
          callback({ code, details: "no", metadata });
        },
      },
    );
    const port = await new Promise<number>((resolve, reject) => {
      server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      );
    });
    const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), {
      "grpc.enable_retries": 0,
    });
    closers.push(() => {
      client.close();
      server.forceShutdown();
    });
    return () =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(method.path, bytes, bytes, Buffer.alloc(0), (error, value) =>
          error ? reject(error) : resolve(value),
        );
      });
  }

  const { UNAVAILABLE, RESOURCE_EXHAUSTED, INVALID_ARGUMENT } = grpc.status;
  const refused = { reason: "not-retryable", verdict: "terminal" } as const;

  test.each([
    [UNAVAILABLE, "2500", { delayMs: 2500, source: "retry-after", verdict: "transient" }],
    [RESOURCE_EXHAUSTED, "70", { delayMs: 70, source: "retry-after", verdict: "throttled" }],
    [UNAVAILABLE, undefined, { delayMs: 100, source: "policy", verdict: "transient" }],
    [UNAVAILABLE, "-1", refused],
    [UNAVAILABLE, "soon", refused],
    [INVALID_ARGUMENT, "2500", refused],
  ] as const)("code %d with pushback %s", async (code, pushback, expected) => {
    await expectPlan(await callFailingWith(code, pushback), expected);
  });
});

describe("pg", () => {
  let server: PostgresServer;
  let client: pg.Client;
  beforeAll(async () => {
    server = await startPostgres();
    client = new pg.Client({ connectionString: server.url });
    await client.connect();
    await client.query("CREATE TABLE one (id int PRIMARY KEY)");
    await client.query("INSERT INTO one VALUES (1)");
  });
  afterAll(async () => {
    await client.end();
    await server.stop();
  });

  const raise = (state: string) =>
    `DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '${state}'; END $$`;
  const retried = { delayMs: 100, source: "policy", verdict: "transient" } as const;
  const final = { reason: "not-retryable", verdict: "terminal" } as const;

  test.each([
    ["a serialization failure", raise("40001"), retried],
    ["a deadlock", raise("40P01"), retried],
    ["too many connections", raise("53300"), retried],
    ["a shutdown", raise("57P01"), retried],
    ["a duplicate key", "INSERT INTO one VALUES (1)", final],
    ["bad data", "SELECT 'x'::int", final],
    ["a syntax error", "SELEC 1", final],
    ["a missing table", "SELECT * FROM two", final],
  ])("%s", async (_, sql, expected) => {
    await expectPlan(() => client.query(sql), expected);
  });
});
