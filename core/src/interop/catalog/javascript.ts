/** Defaults of the retrying clients and libraries of JavaScript. */
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

export const javascriptEntries: readonly CatalogEntry[] = [
  got,
  ky,
  pRetry,
  asyncRetry,
  undici,
  cockatiel,
  cockatielExponential,
  effect,
];
