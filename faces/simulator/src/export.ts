/**
 * The public API of `@redrive/simulator/export`: policies as code, and results as CSV. Code uses a
 * policy with Redrive, with two other JavaScript libraries, with the AWS SDK, as a gRPC service
 * config and in other languages. Notes list what a target cannot express, so no code silently does
 * something else.
 */
import {
  formatCount,
  formatSeconds,
  type Patience,
  type Policy,
  type PolicyDocument,
  resolvePolicy,
} from "@redrive/core";
import { exportAws, exportGrpc } from "@redrive/core/interop";
import type { Advice } from "./advise.ts";
import {
  csharpCode,
  goCode,
  javaCode,
  pythonCode,
  rustCode,
  type TargetCode,
} from "./export-languages.ts";

export type { TargetCode } from "./export-languages.ts";

export type CodeTarget =
  | "redrive"
  | "p-retry"
  | "cockatiel"
  | "aws"
  | "grpc"
  | "python"
  | "go"
  | "java"
  | "csharp"
  | "rust";

export const codeTargets: readonly { readonly id: CodeTarget; readonly label: string }[] = [
  { id: "redrive", label: "Redrive" },
  { id: "p-retry", label: "p-retry" },
  { id: "cockatiel", label: "cockatiel" },
  { id: "aws", label: "AWS SDK" },
  { id: "grpc", label: "gRPC" },
  { id: "python", label: "Python" },
  { id: "go", label: "Go" },
  { id: "java", label: "Java" },
  { id: "csharp", label: "C#" },
  { id: "rust", label: "Rust" },
];

export function codeFor(target: CodeTarget, document: PolicyDocument): TargetCode {
  return WRITERS[target](document);
}

const WRITERS: Readonly<Record<CodeTarget, (document: PolicyDocument) => TargetCode>> = {
  redrive: redriveCode,
  "p-retry": pRetryCode,
  cockatiel: cockatielCode,
  aws: awsCode,
  grpc: grpcCode,
  python: (document) => pythonCode(resolvePolicy(document)),
  go: (document) => goCode(resolvePolicy(document)),
  java: (document) => javaCode(resolvePolicy(document)),
  csharp: (document) => csharpCode(resolvePolicy(document)),
  rust: (document) => rustCode(resolvePolicy(document)),
};

function redriveCode(document: PolicyDocument): TargetCode {
  const text = `import { retry } from "redrive";

const response = await retry(({ signal }) => call({ signal }), ${literal(withKey(document))});`;
  return { language: "ts", text, notes: [] };
}

function pRetryCode(document: PolicyDocument): TargetCode {
  const policy = resolvePolicy(document);
  const { firstMs, factor, maxMs } = curveOf(policy);
  const isRandom = policy.jitterType !== "NONE";
  const options = {
    retries: policy.maxAttempts - 1,
    minTimeout: firstMs,
    maxTimeout: maxMs,
    factor,
    randomize: isRandom,
    maxRetryTime: policy.totalBudgetMs,
  };
  const notes = [
    ...shapeNotes("p-retry", policy),
    ...(isRandom
      ? [
          `p-retry multiplies the wait by 1 to 2 and then caps it, instead of ${policy.jitterType}: waits are longer, and many equal the cap.`,
        ]
      : []),
    "p-retry has no timeout per attempt and ignores Retry-After.",
  ];
  const text = `import pRetry from "p-retry";

const response = await pRetry(() => call(), ${literal(options)});`;
  return { language: "ts", text, notes };
}

function cockatielCode(document: PolicyDocument): TargetCode {
  const policy = resolvePolicy(document);
  const backoff =
    policy.delaysMs === undefined
      ? cockatielBackoff(policy)
      : `new IterableBackoff(${JSON.stringify(policy.delaysMs)})`;
  const names = [...backoff.matchAll(/new (\w+)|(\w+Generator)/gu)].map(
    ([, made, used]) => made ?? used,
  );
  const text = `import { ${[...names, "handleAll", "retry"].join(", ")} } from "cockatiel";

const policy = retry(handleAll, {
  maxAttempts: ${policy.maxAttempts - 1},
  backoff: ${backoff},
});
const response = await policy.execute(({ signal }) => call({ signal }));`;
  return { language: "ts", text, notes: cockatielNotes(policy) };
}

function cockatielNotes(policy: Policy): readonly string[] {
  const { jitterType, maxAttempts, delaysMs, backoff } = policy;
  const isExponential = delaysMs === undefined && backoff !== "FIXED";
  const isDrawn = isExponential && Object.hasOwn(GENERATORS, jitterType);
  return [
    ...(delaysMs === undefined ? shapeNotes("cockatiel", policy) : []),
    ...(jitterType === "NONE" || isDrawn
      ? []
      : [`cockatiel has no ${jitterType} jitter here; its waits have no jitter.`]),
    ...(isDrawn && jitterType === "DECORRELATED"
      ? ["cockatiel's decorrelated jitter uses Polly's formula, not that of AWS."]
      : []),
    ...(isDrawn && jitterType !== "DECORRELATED" && policy.multiplier !== 2
      ? ["cockatiel always doubles with this jitter and ignores exponent."]
      : []),
    `cockatiel counts retries: maxAttempts ${maxAttempts - 1} makes ${formatCount(maxAttempts, "call")}.`,
    `cockatiel has no total budget: wrap it in a timeout of ${formatSeconds(policy.totalBudgetMs)} if you need one.`,
  ];
}

const GENERATORS: Readonly<Record<string, string>> = {
  NONE: "noJitterGenerator",
  FULL: "fullJitterGenerator",
  EQUAL: "halfJitterGenerator",
  DECORRELATED: "decorrelatedJitterGenerator",
};

function cockatielBackoff(policy: Policy): string {
  const { firstMs, factor, maxMs } = curveOf(policy);
  if (policy.backoff === "FIXED") return `new ConstantBackoff(${firstMs})`;
  const generator = GENERATORS[policy.jitterType] ?? "noJitterGenerator";
  return `new ExponentialBackoff({
    initialDelay: ${firstMs},
    exponent: ${factor},
    maxDelay: ${maxMs},
    generator: ${generator},
  })`;
}

function awsCode(document: PolicyDocument): TargetCode {
  const { maxAttempts } = resolvePolicy(document);
  const { text: config, notes } = exportAws(document);
  const mode = /retry_mode = (\w+)/u.exec(config)?.[1] ?? "standard";
  const text = `import { S3Client } from "@aws-sdk/client-s3";

const client = new S3Client({ maxAttempts: ${maxAttempts}, retryMode: "${mode}" });

/* or in ~/.aws/config, for every client:

${config.trimEnd()}
*/`;
  return { language: "ts", text, notes };
}

function grpcCode(document: PolicyDocument): TargetCode {
  const { config, notes } = exportGrpc(document);
  return { language: "json", text: JSON.stringify(config, null, 2), notes };
}

interface Curve {
  readonly firstMs: number;
  readonly factor: number;
  readonly maxMs: number;
}

/** The nearest exponential curve. It is exact for EXPONENTIAL and FIXED. */
function curveOf(policy: Policy): Curve {
  if (policy.delaysMs !== undefined) {
    const maxMs = policy.delaysMs.reduce((max, each) => Math.max(max, each), 0);
    return { firstMs: policy.delaysMs[0] ?? 0, factor: 2, maxMs };
  }
  const { backoff, initialDelayMs, multiplier, maxDelayMs } = policy;
  if (backoff === "FIXED") return { firstMs: initialDelayMs, factor: 1, maxMs: initialDelayMs };
  const factor = backoff === "LINEAR" ? 2 : multiplier;
  return { firstMs: initialDelayMs, factor, maxMs: maxDelayMs };
}

function shapeNotes(name: string, policy: Policy): readonly string[] {
  if (policy.delaysMs !== undefined) {
    return [`${name} has no list of waits: a curve that doubles the first wait replaces it.`];
  }
  return policy.backoff === "LINEAR" ? [`${name} has no linear growth: doubling replaces it.`] : [];
}

export interface Code {
  /** For a single call. */
  readonly retry: string;
  /** For all calls to the dependency: the guards count them together. */
  readonly destination: string;
}

export function adviceCode({ policy, destination, patience }: Advice): Code {
  return {
    retry: `import { retry } from "redrive";

const response = await retry(call, ${literal(withKey(policy))});`,
    destination: `import { destination } from "redrive";

const dependency = destination("dependency", ${literal(destination)});
const response = await dependency.run(call${optionsArgument(policy, patience)});`,
  };
}

/** Adds a key if the policy requires one, so the code works. */
function withKey(policy: PolicyDocument): object {
  return policy.requireIdempotencyKey ? { ...policy, idempotencyKey: "order-42" } : policy;
}

function optionsArgument(policy: PolicyDocument, patience: Patience): string {
  const options = [
    ...(policy.requireIdempotencyKey ? ['idempotencyKey: "order-42"'] : []),
    // A call that a guard refuses waits for it, instead of ending at once.
    ...(patience === "wait" ? ['patience: "wait"'] : []),
  ];
  return options.length === 0 ? "" : `, { ${options.join(", ")} }`;
}

/** A value as a literal with unquoted keys. */
function literal(value: object): string {
  return JSON.stringify(value, null, 2)
    .replace(/^( *)"([a-zA-Z]\w*)":/gmu, "$1$2:")
    .replace(/([^{[,])\n/gu, "$1,\n")
    .replace(/,\n$/u, "\n");
}

// CSV: formats rows by RFC 4180, for spreadsheets and programs.

export type CsvRow = readonly (string | number | undefined)[];

export function csv(rows: readonly CsvRow[]): string {
  return rows.map((row) => `${row.map(fieldOf).join(",")}\n`).join("");
}

function fieldOf(value: string | number | undefined): string {
  const text = value === undefined ? "" : String(value);
  return /[",\r\n]/u.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
