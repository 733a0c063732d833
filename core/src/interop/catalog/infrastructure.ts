/** Defaults of proxies, RPC systems and webhook senders: retries that happen outside the program. */
import { statusRange } from "../../policy/status-range.ts";
import { ANY_FAILURE, type CatalogEntry, entry, UNBOUNDED, unbounded } from "./entry.ts";

const SEEN = "2026-11-15";
const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const grpc = entry({
  id: "grpc",
  title: "gRPC, the service config of gRFC A6's example",
  version: "grpc-js 1.14.7",
  date: SEEN,
  source:
    "https://github.com/grpc/proposal A6-client-retries.md and @grpc/grpc-js@1.14.7 build/src/retrying-call.js",
  policy: {
    ...UNBOUNDED,
    maxAttempts: 4,
    initialDelayMs: 100,
    maxDelayMs: 1000,
    jitterType: "PROPORTIONAL",
    jitterRatio: 0.2,
    retryableGrpcCodes: ["UNAVAILABLE"],
  },
  destination: { retryBudget: { kind: "GRPC", maxTokens: 10, tokenRatio: 0.1 } },
  differs: [
    "gRPC has no default retry policy: without a service config, only calls that were never sent are repeated, at once.",
    "gRPC restarts the curve after a pushback from the server; Redrive continues it.",
    unbounded("gRPC without a deadline"),
  ],
});

const envoy = entry({
  id: "envoy",
  title: "Envoy, retry_on: 5xx with defaults",
  version: "1.39",
  date: SEEN,
  source:
    "https://github.com/envoyproxy/envoy source/common/router/retry_state_impl.cc and source/common/common/backoff_strategy.cc",
  policy: {
    maxAttempts: 2,
    initialDelayMs: 25,
    maxDelayMs: 250,
    totalBudgetMs: 15_000,
    attemptTimeoutMs: 15_000,
    connectTimeoutMs: 5000,
    retryableStatusCodes: statusRange(500, 599),
    retryableGrpcCodes: [],
    retryableErrors: ["timeout", "connect", "reset", "protocol"],
    respectRetryAfter: false,
  },
  destination: { concurrency: { algorithm: "FIXED", max: 1024, maxRetries: 3 } },
  differs: [
    "Envoy retries nothing until a route sets retry_on; 5xx is the usual value.",
    "Envoy repeats every method, including POST.",
    "Envoy's documentation gives the second ceiling as 3 x 25 ms; its source has drawn below 2 x 25 ms since 2020, as Redrive does.",
  ],
});

const stripeWebhooks = entry({
  id: "stripe-webhooks",
  title: "Stripe webhooks, live mode",
  version: "documentation of September 2026",
  date: SEEN,
  source: "https://docs.stripe.com/webhooks",
  methods: ["POST"],
  policy: {
    ...ANY_FAILURE,
    delaysMs: [
      5 * MINUTE_MS,
      30 * MINUTE_MS,
      2 * HOUR_MS,
      5 * HOUR_MS,
      10 * HOUR_MS,
      12 * HOUR_MS,
      12 * HOUR_MS,
      12 * HOUR_MS,
      12 * HOUR_MS,
    ],
    jitterType: "NONE",
    totalBudgetMs: 3 * DAY_MS,
    attemptTimeoutMs: 30 * SECOND_MS,
  },
  differs: [
    "Stripe promises up to three days of exponential backoff and publishes no intervals; the list is what receivers report.",
    "Stripe does not say whether its waits are random, nor how long it waits for a response; 30 s is what receivers report.",
  ],
});

const svixWebhooks = entry({
  id: "svix-webhooks",
  title: "Svix webhooks",
  version: "documentation",
  date: SEEN,
  source: "https://docs.svix.com/retries",
  methods: ["POST"],
  policy: {
    ...ANY_FAILURE,
    delaysMs: [
      5 * SECOND_MS,
      5 * MINUTE_MS,
      30 * MINUTE_MS,
      2 * HOUR_MS,
      5 * HOUR_MS,
      10 * HOUR_MS,
      10 * HOUR_MS,
    ],
    jitterType: "NONE",
    totalBudgetMs: 28 * HOUR_MS,
    attemptTimeoutMs: 15 * SECOND_MS,
  },
  differs: [
    "Svix also stops when the receiver responds with the header webhook-delivery: abort-message.",
    "Svix disables an endpoint that has failed for five days.",
    "Svix calls its times approximate and does not say whether they are random.",
  ],
});

const lambdaAsync = entry({
  id: "lambda-async",
  title: "AWS Lambda, asynchronous invocation",
  version: "documentation",
  date: SEEN,
  source: "https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html",
  policy: {
    ...ANY_FAILURE,
    delaysMs: [MINUTE_MS, 2 * MINUTE_MS],
    jitterType: "NONE",
    totalBudgetMs: 6 * HOUR_MS,
    attemptTimeoutMs: 600_000,
  },
  differs: [
    "This applies after an error of the function; throttling and errors of Lambda itself are retried from 1 s to 5 min, exponentially, until the event is six hours old.",
    "A function may run for 15 min; the maximum attempt of a policy is ten.",
  ],
});

export const infrastructureEntries: readonly CatalogEntry[] = [
  grpc,
  envoy,
  stripeWebhooks,
  svixWebhooks,
  lambdaAsync,
];
