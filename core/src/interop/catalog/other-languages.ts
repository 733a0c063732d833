/** Defaults of the retry libraries of .NET, the JVM and Python. */
import { statusRange } from "../../policy/status-range.ts";
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
} from "./entry.ts";

const SEEN = "2026-11-15";

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

export const otherLanguageEntries: readonly CatalogEntry[] = [
  polly,
  httpResilience,
  resilience4j,
  finagle,
  urllib3,
  tenacity,
];
