/**
 * Catalog: the retry defaults of other systems, as documents to simulate, to compare with and to start
 * from. Every entry has a date and a source. If a policy cannot express a system's rule, the entry says
 * how it differs. One difference is not listed: other systems exclude the ceiling when they draw, and
 * Redrive includes it, which is one millisecond.
 */

import { statusRange } from "../decide/policy.ts";
import { quote, RedriveError } from "../documents/errors.ts";
import { nearestName } from "../documents/nearest-name.ts";
import { awsEntries } from "./aws-config.ts";
import {
  ANY_FAILURE,
  anyFailure,
  type CatalogEntry,
  endless,
  entry,
  exactHint,
  MAX_ATTEMPTS,
  UNBOUNDED,
  unbounded,
} from "./catalog-entry.ts";

// Proxies, RPC systems and webhook senders: retries that happen outside the program.

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

const infrastructureEntries: readonly CatalogEntry[] = [
  grpc,
  envoy,
  stripeWebhooks,
  svixWebhooks,
  lambdaAsync,
];

// The retrying clients and libraries of JavaScript.

const METHODS = ["GET", "PUT", "HEAD", "DELETE", "OPTIONS", "TRACE", "QUERY"];
const tooLarge = (name: string) =>
  `${name} repeats a 413 only with Retry-After; a policy cannot express that.`;

const got = entry({
  id: "got",
  title: "got",
  version: "16.1.0",
  date: SEEN,
  source: "got@16.1.0 dist/source/core/options.js and dist/source/core/calculate-retry-delay.js",
  methods: METHODS,
  policy: {
    ...UNBOUNDED,
    maxAttempts: 3,
    initialDelayMs: 1000,
    jitterType: "NONE",
    retryableStatusCodes: [408, 413, 429, 500, 502, 503, 504, 521, 522, 524],
    retryableErrors: ["timeout", "connect", "reset", "dns"],
  },
  differs: [
    "got adds a random 0 to 100 ms to each wait.",
    tooLarge("got"),
    exactHint("got"),
    unbounded("got"),
  ],
});

const ky = entry({
  id: "ky",
  title: "ky",
  version: "2.1.0",
  date: SEEN,
  source: "ky@2.1.0 distribution/utils/normalize.js and distribution/core/Ky.js",
  methods: METHODS,
  policy: {
    ...UNBOUNDED,
    maxAttempts: 3,
    initialDelayMs: 300,
    jitterType: "NONE",
    attemptTimeoutMs: 10_000,
    connectTimeoutMs: 10_000,
    retryableStatusCodes: [408, 413, 429, 500, 502, 503, 504],
    retryableErrors: ["connect", "reset", "dns", "tls", "protocol"],
  },
  differs: [
    tooLarge("ky"),
    "ky follows Retry-After only on 413, 429 and 503, but also reads the RateLimit-Reset family.",
    exactHint("ky"),
    "ky limits an attempt to 10 s and does not limit the whole call; a year replaces that.",
  ],
});

const pRetry = entry({
  id: "p-retry",
  title: "p-retry",
  version: "9.0.0",
  date: SEEN,
  source: "p-retry@9.0.0 index.js",
  policy: {
    ...UNBOUNDED,
    ...ANY_FAILURE,
    maxAttempts: 11,
    initialDelayMs: 1000,
    maxDelayMs: 512_000,
    jitterType: "NONE",
  },
  differs: [
    "p-retry has no cap: 512 s is its last wait, so it is the cap here.",
    anyFailure("p-retry"),
    unbounded("p-retry"),
  ],
});

const asyncRetry = entry({
  id: "async-retry",
  title: "async-retry",
  version: "1.3.3",
  date: SEEN,
  source: "async-retry@1.3.3 lib/index.js and retry@0.13.1 lib/retry.js",
  policy: {
    ...UNBOUNDED,
    ...ANY_FAILURE,
    maxAttempts: 11,
    initialDelayMs: 1500,
    maxDelayMs: 768_000,
    jitterType: "PROPORTIONAL",
    jitterRatio: 1 / 3,
  },
  differs: [
    "async-retry draws from 1 to 2 times 1000 ms x 2^n; plus or minus a third of 1500 ms x 2^n is the same range.",
    "async-retry draws all its waits before the first attempt and sorts them.",
    anyFailure("async-retry"),
    unbounded("async-retry"),
  ],
});

const undici = entry({
  id: "undici",
  title: "undici RetryAgent",
  version: "8.12.4",
  date: SEEN,
  source: "undici@8.12.4 lib/handler/retry-handler.js",
  methods: METHODS,
  policy: {
    ...UNBOUNDED,
    maxAttempts: 6,
    initialDelayMs: 500,
    maxDelayMs: 30_000,
    jitterType: "NONE",
    connectTimeoutMs: 10_000,
    attemptTimeoutMs: 300_000,
    retryableStatusCodes: [429, 500, 502, 503, 504],
    retryableErrors: ["connect", "reset", "dns"],
    maxRetryAfterMs: 30_000,
  },
  differs: [
    "undici limits the headers and each idle time of the body to 300 s, not the attempt or the call.",
    exactHint("undici"),
  ],
});

const cockatiel = entry({
  id: "cockatiel",
  title: "cockatiel, retry(handleAll, {})",
  version: "4.0.0",
  date: SEEN,
  source: "cockatiel@4.0.0 dist/Policy.js and dist/RetryPolicy.js",
  policy: {
    ...UNBOUNDED,
    ...ANY_FAILURE,
    maxAttempts: MAX_ATTEMPTS,
    backoff: "FIXED",
    initialDelayMs: 0,
    jitterType: "NONE",
  },
  differs: [
    endless("cockatiel"),
    "cockatiel's own maxAttempts counts retries: 5 makes six calls.",
    anyFailure("cockatiel"),
    unbounded("cockatiel"),
  ],
});

const cockatielExponential = entry({
  ...cockatiel,
  id: "cockatiel-exponential",
  title: "cockatiel with new ExponentialBackoff()",
  source: "cockatiel@4.0.0 dist/backoff/ExponentialBackoffGenerators.js",
  policy: {
    ...UNBOUNDED,
    ...ANY_FAILURE,
    maxAttempts: MAX_ATTEMPTS,
    initialDelayMs: 66,
    maxDelayMs: 30_000,
    jitterType: "PROPORTIONAL",
    jitterRatio: 0.75,
  },
  differs: [
    "cockatiel uses Polly's formula, 2^t x tanh(sqrt(4t)) minus the previous term, divided by 1.4 and multiplied by 128 ms; from the second wait on, its mean is about 66 ms x 2^n, and the first is longer (112 ms).",
    "cockatiel caps after drawing, so late waits are all exactly 30 s; Redrive caps before drawing.",
    ...cockatiel.differs,
  ],
});

const effect = entry({
  id: "effect",
  title: "Effect HttpClient.retryTransient, as its guide shows it",
  version: "4.1.0",
  date: SEEN,
  source: "effect@4.1.0 src/http/HttpClient.ts and ai-docs/src/50_http-client/10_basics.ts",
  policy: {
    ...UNBOUNDED,
    maxAttempts: 4,
    initialDelayMs: 100,
    jitterType: "NONE",
    retryableStatusCodes: [408, 429, 500, 502, 503, 504],
    retryableErrors: ["timeout", "connect", "reset", "dns", "tls", "protocol"],
  },
  differs: [
    "Effect has no default schedule; the guide's is exponential(100) with times: 3. Schedule.jittered would be PROPORTIONAL with a ratio of 0.2.",
    "Effect repeats every method, including POST.",
    "Effect waits for Retry-After or its own schedule, whichever is longer; Redrive adds a random time to the hint.",

    unbounded("Effect"),
  ],
});

const javascriptEntries: readonly CatalogEntry[] = [
  got,
  ky,
  pRetry,
  asyncRetry,
  undici,
  cockatiel,
  cockatielExponential,
  effect,
];

// The retry libraries of .NET, the JVM and Python.

const polly = entry({
  id: "polly",
  title: "Polly 8, AddRetry with default options",
  version: "8.7",
  date: SEEN,
  source: "https://github.com/App-vNext/Polly src/Polly.Core/Retry/RetryConstants.cs",
  policy: {
    ...UNBOUNDED,
    ...ANY_FAILURE,
    maxAttempts: 4,
    backoff: "FIXED",
    initialDelayMs: 2000,
    jitterType: "NONE",
  },
  differs: [anyFailure("Polly"), unbounded("Polly")],
});

const httpResilience = entry({
  id: "ms-http-resilience",
  title: "Microsoft.Extensions.Http.Resilience, standard handler",
  version: "documentation",
  date: SEEN,
  source:
    "https://github.com/dotnet/extensions src/Libraries/Microsoft.Extensions.Http.Resilience/Polly/HttpRetryStrategyOptions.cs",
  policy: {
    delaysMs: [1750, 2300, 4150],
    jitterType: "PROPORTIONAL",
    jitterRatio: 0.6,
    totalBudgetMs: 30_000,
    attemptTimeoutMs: 10_000,
    connectTimeoutMs: 10_000,
    retryableStatusCodes: [408, 429, ...statusRange(500, 599)],
    retryableErrors: ["timeout", "connect", "reset", "dns", "tls", "protocol"],
  },
  destination: {
    breaker: { failureRate: 0.1, minCalls: 100, windowMs: 30_000, openMs: 5000, maxOpenMs: 5000 },
    concurrency: { algorithm: "FIXED", max: 1000, queue: 0 },
  },
  differs: [
    "Polly computes its waits as 2^t x tanh(sqrt(4t)) minus the previous term, divided by 1.4 and multiplied by 2 s; the list has the means of the three waits, and plus or minus 60 % is about their spread.",
    "The handler repeats every method unless DisableForUnsafeHttpMethods is called.",
    exactHint("The handler"),
  ],
});

const resilience4j = entry({
  id: "resilience4j",
  title: "Resilience4j, Retry and CircuitBreaker with defaults",
  version: "main of May 2026",
  date: SEEN,
  source:
    "https://github.com/resilience4j/resilience4j resilience4j-retry/src/main/java/io/github/resilience4j/retry/RetryConfig.java",
  policy: {
    ...UNBOUNDED,
    ...ANY_FAILURE,
    maxAttempts: 3,
    backoff: "FIXED",
    initialDelayMs: 500,
    jitterType: "NONE",
  },
  destination: {
    breaker: {
      failureRate: 0.5,
      minCalls: 100,
      windowMs: 60_000,
      openMs: 60_000,
      maxOpenMs: 60_000,
      halfOpenProbes: 10,
      slowCallMs: 60_000,
      slowRate: 1,
    },
  },
  differs: [
    "Resilience4j's breaker uses the last 100 calls however old they are; a minute replaces that.",
    "Retry and CircuitBreaker are two modules; the caller combines them in any order.",
    "ofExponentialRandomBackoff(), which is optional, is 500 ms x 1.5 with PROPORTIONAL 0.5.",
    anyFailure("Resilience4j"),
    unbounded("Resilience4j"),
  ],
});

const finagle = entry({
  id: "finagle",
  title: "Finagle client, automatic requeues",
  version: "24.5",
  date: SEEN,
  source:
    "https://github.com/twitter/finagle finagle-core/src/main/scala/com/twitter/finagle/service/Retries.scala and RetryBudget.scala",
  policy: {
    ...UNBOUNDED,
    maxAttempts: 21,
    backoff: "FIXED",
    initialDelayMs: 0,
    jitterType: "NONE",
    retryableStatusCodes: [],
    retryableGrpcCodes: [],
    retryableErrors: ["connect"],
    respectRetryAfter: false,
  },
  destination: {
    retryBudget: { kind: "RATIO", ratio: 0.2, minPerSecond: 10, windowMs: 10_000 },
    breaker: {
      failureRate: 0.2,
      minCalls: 5,
      windowMs: 30_000,
      openMs: 5000,
      maxOpenMs: 300_000,
    },
  },
  differs: [
    "Finagle gives one request at most a fifth of the budget's balance; 20 requeues are that share of a fresh budget.",
    "Finagle requeues requests that were certainly not written, which is more than a failed connect: a server's nack counts too.",
    "Failure accrual belongs to one endpoint behind the balancer, and also opens after 5 failures in a row.",
    unbounded("Finagle"),
  ],
});

const urllib3 = entry({
  id: "urllib3",
  title: "urllib3, and requests with an adapter",
  version: "2.8.0",
  date: SEEN,
  source: "urllib3@2.8.0 urllib3/util/retry.py",
  methods: ["HEAD", "GET", "PUT", "DELETE", "OPTIONS", "TRACE"],
  policy: {
    ...UNBOUNDED,
    maxAttempts: 4,
    backoff: "FIXED",
    initialDelayMs: 0,
    jitterType: "NONE",
    retryableStatusCodes: [413, 429, 503],
    retryableErrors: ["timeout", "connect", "reset", "dns", "tls", "protocol"],
    maxRetryAfterMs: 21_600_000,
  },
  differs: [
    "urllib3 repeats 413, 429 and 503 only with Retry-After; a policy cannot express that.",
    "With a backoff_factor the first retry is still sent at once, the next after factor x 2 s, x 4 s and so on up to 120 s.",
    exactHint("urllib3"),
    unbounded("urllib3"),
  ],
});

const tenacity = entry({
  id: "tenacity",
  title: "tenacity, @retry without arguments",
  version: "9.1.4",
  date: SEEN,
  source: "tenacity@9.1.4 tenacity/__init__.py and tenacity/wait.py",
  policy: {
    ...UNBOUNDED,
    ...ANY_FAILURE,
    maxAttempts: MAX_ATTEMPTS,
    backoff: "FIXED",
    initialDelayMs: 0,
    jitterType: "NONE",
  },
  differs: [
    endless("tenacity"),
    "wait_random_exponential(), which is optional, is FULL from 1 s, doubling without a cap.",
    anyFailure("tenacity"),
    unbounded("tenacity"),
  ],
});

const otherLanguageEntries: readonly CatalogEntry[] = [
  polly,
  httpResilience,
  resilience4j,
  finagle,
  urllib3,
  tenacity,
];

/** Every entry; each id is unique. */
export const catalog: readonly CatalogEntry[] = [
  ...awsEntries,
  ...infrastructureEntries,
  ...javascriptEntries,
  ...otherLanguageEntries,
];

/** The entry with that id; throws `INVALID_ARGUMENT` for an unknown id. */
export function catalogEntry(id: string): CatalogEntry {
  const found = catalog.find((entry) => entry.id === id);
  if (found !== undefined) return found;
  const ids = catalog.map((entry) => entry.id);
  const near = nearestName(String(id), ids);
  const hint = near === undefined ? `one of ${ids.join(", ")}` : `did you mean ${quote(near)}?`;
  throw new RedriveError("INVALID_ARGUMENT", `unknown catalog entry ${quote(id)}, ${hint}`);
}
