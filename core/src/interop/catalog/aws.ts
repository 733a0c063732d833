/**
 * Defaults of the AWS SDKs: the three retry modes of the shared configuration, before and since "retry
 * behavior 2.1" of November 2026. `aws-config.ts` reads its constants from here.
 */
import { type CatalogEntry, entry, UNBOUNDED, unbounded } from "./entry.ts";

const SEEN = "2026-11-15";

const ERROR_CODES =
  "The SDK also reads the error code in the body (for example ThrottlingException with status 400); a policy only reads the status.";
const EVERY_METHOD =
  "The SDK repeats every operation, including POST; Redrive repeats a POST only with an idempotency key or if it is declared idempotent.";
const BOUNDED_HINT =
  "The SDK limits Retry-After to between its own wait and 5 s more; Redrive waits as long as the server asks.";
const DYNAMODB =
  "DynamoDB has 4 attempts and a base of 25 ms since 2.1; these are the figures of the other services.";
const PYTHON_BASE =
  "The Python SDK waited from a base of 1 s, throttled or not; these are the figures of the JavaScript SDK.";
const HALVES =
  "The SDK measures its rate in half seconds and also slows first attempts; the destination's `rate.adaptive` does both.";

const standardPolicy = {
  ...UNBOUNDED,
  maxAttempts: 3,
  initialDelayMs: 50,
  throttleDelayMs: 1000,
  maxDelayMs: 20_000,
  retryableStatusCodes: [429, 500, 502, 503, 504],
  retryableErrors: ["timeout", "connect", "reset", "dns"],
} as const;

const standardBudget = {
  kind: "TOKENS",
  maxTokens: 500,
  costPerRetry: 14,
  costPerThrottle: 5,
  refillPerSuccess: 1,
} as const;

export const awsStandard: CatalogEntry = entry({
  id: "aws-standard",
  title: "AWS SDK, standard mode",
  version: "retry behavior 2.1",
  date: SEEN,
  source: "@smithy/core@3.40.0 dist-es/submodules/retry/util-retry/StandardRetryStrategy.js",
  policy: standardPolicy,
  destination: { retryBudget: standardBudget },
  differs: [BOUNDED_HINT, ERROR_CODES, EVERY_METHOD, DYNAMODB, unbounded("The SDK")],
});

export const awsAdaptive: CatalogEntry = entry({
  id: "aws-adaptive",
  title: "AWS SDK, adaptive mode",
  version: "retry behavior 2.1",
  date: SEEN,
  source: "@smithy/core@3.40.0 dist-es/submodules/retry/util-retry/AdaptiveRetryStrategy.js",
  policy: standardPolicy,
  destination: { retryBudget: standardBudget, rate: { adaptive: true } },
  differs: [HALVES, BOUNDED_HINT, ERROR_CODES, EVERY_METHOD, DYNAMODB, unbounded("The SDK")],
});

const beforePolicy = { ...standardPolicy, initialDelayMs: 100, throttleDelayMs: 500 } as const;
const beforeBudget = { ...standardBudget, costPerRetry: 10 } as const;

export const awsStandardBefore: CatalogEntry = entry({
  id: "aws-standard-before-2.1",
  title: "AWS SDK, standard mode",
  version: "before retry behavior 2.1",
  date: SEEN,
  source: "@smithy/core@3.30.0 dist-es/submodules/retry/util-retry/retries-2026-config.js",
  policy: beforePolicy,
  destination: { retryBudget: beforeBudget },
  differs: [PYTHON_BASE, BOUNDED_HINT, ERROR_CODES, EVERY_METHOD, unbounded("The SDK")],
});

export const awsAdaptiveBefore: CatalogEntry = entry({
  id: "aws-adaptive-before-2.1",
  title: "AWS SDK, adaptive mode",
  version: "before retry behavior 2.1",
  date: SEEN,
  source: "@smithy/core@3.30.0 dist-es/submodules/retry/util-retry/AdaptiveRetryStrategy.js",
  policy: beforePolicy,
  destination: { retryBudget: beforeBudget, rate: { adaptive: true } },
  differs: [HALVES, PYTHON_BASE, BOUNDED_HINT, ERROR_CODES, EVERY_METHOD, unbounded("The SDK")],
});

export const awsLegacy: CatalogEntry = entry({
  id: "aws-legacy",
  title: "AWS SDK for Python and AWS CLI, legacy mode",
  version: "botocore 1.43.107",
  date: SEEN,
  source: "botocore@1.43.107 botocore/data/_retry.json and botocore/retryhandler.py",
  policy: {
    ...UNBOUNDED,
    maxAttempts: 5,
    initialDelayMs: 1000,
    maxDelayMs: 8000,
    retryableStatusCodes: [429, 500, 502, 503, 504, 509],
    retryableErrors: ["timeout", "connect", "reset", "dns"],
    respectRetryAfter: false,
  },
  differs: [
    "Legacy has no cap: 8 s is the ceiling of its last wait, so it is the cap here.",
    "Legacy differs between SDKs, and DynamoDB has ten attempts from a base of 50 ms without jitter.",
    "The SDK limits connecting and each idle time of the socket to 60 s, not the attempt or the call.",
    ERROR_CODES,
    EVERY_METHOD,
  ],
});

export const awsEntries: readonly CatalogEntry[] = [
  awsLegacy,
  awsStandardBefore,
  awsStandard,
  awsAdaptiveBefore,
  awsAdaptive,
];
