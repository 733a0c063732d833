/**
 * gRPC config: reads and writes the retry, hedging and throttling parts of a gRPC service config (gRFC A6),
 * so you can simulate and run the behavior of gRPC clients here.
 */
import {
  type CurvePolicy,
  GRPC_CODES,
  type GrpcCode,
  type ListPolicy,
  type Policy,
  type PolicyDocument,
  resolvePolicy,
} from "../decide/policy.ts";
import { quote, RedriveError } from "../documents/errors.ts";
import { formatSeconds } from "../documents/format.ts";
import type { RetryBudgetDocument } from "../guards/destination.ts";
import {
  addLostNote,
  clampWithNote,
  type DestinationParts,
  type Imported,
  imported,
  isSet,
  type Part,
  readInteger,
  readList,
  readObject,
  readPositive,
  readPositiveSeconds,
  readSeconds,
  readText,
  refuse,
} from "./config-reader.ts";

/** The method to read or write a config for; by default every method. */
export interface GrpcTarget {
  /** With its package, such as `shop.Orders`. */
  readonly service?: string;
  /** Only with `service`. */
  readonly method?: string;
}

/** A gRPC client makes at most this many attempts, whatever its config says. */
const GRPC_MAX_ATTEMPTS = 5;

/** gRPC draws each wait from 0.8 to 1.2 times its backoff. */
const GRPC_JITTER_RATIO = 0.2;

/** One checked methodConfig; only the parts about retrying. */
interface MethodConfig {
  readonly names: readonly string[];
  readonly field: string;
  readonly timeoutMs: number | undefined;
  readonly retry: Part | undefined;
  readonly hedging: Part | undefined;
}

/** Reads a service config for one target: the most specific name wins, as in gRPC. */
export function importGrpc(config: unknown, target: GrpcTarget = {}): Imported {
  if (target.method !== undefined && target.service === undefined) {
    throw new RedriveError("INVALID_ARGUMENT", `method ${quote(target.method)} needs a service`);
  }
  const root = readObject(config, "the service config");
  const notes: string[] = [];
  const methods = readMethods(root["methodConfig"]);
  const throttling = readThrottling(root["retryThrottling"], notes);
  const chosen = choose(methods, target, notes);
  const { policy, hedge } = readPolicies(methods, chosen, notes);
  return imported({ ...policy, ...readTimeout(chosen, notes) }, { ...throttling, ...hedge }, notes);
}

interface Policies {
  readonly policy: PolicyDocument;
  readonly hedge: Pick<DestinationParts, "hedge">;
}

/** In gRPC one bad entry invalidates the config, so every entry is read, not only the chosen one. */
function readPolicies(
  methods: readonly MethodConfig[],
  chosen: MethodConfig | undefined,
  notes: string[],
): Policies {
  let found: Policies = { policy: { maxAttempts: 1 }, hedge: {} };
  for (const method of methods) {
    const read = readPolicy(method, method === chosen ? notes : []);
    if (method === chosen) found = read;
  }
  return found;
}

function readPolicy({ retry, hedging, field }: MethodConfig, notes: string[]): Policies {
  if (retry !== undefined) {
    return { policy: readRetry(retry, `${field}.retryPolicy`, notes), hedge: {} };
  }
  if (hedging !== undefined) return readHedging(hedging, `${field}.hedgingPolicy`, notes);
  notes.push("The method has neither retryPolicy nor hedgingPolicy: it gets one attempt.");
  return { policy: { maxAttempts: 1 }, hedge: {} };
}

function readMethods(value: unknown): readonly MethodConfig[] {
  if (!isSet(value)) return [];
  const methods = readList(value, "methodConfig").map((one, index) =>
    readMethod(one, `methodConfig[${index}]`),
  );
  const seen = new Set<string>();
  for (const name of methods.flatMap((method) => method.names)) {
    if (seen.has(name)) refuse("methodConfig", "without duplicate names", name);
    seen.add(name);
  }
  return methods;
}

function readMethod(value: unknown, field: string): MethodConfig {
  const method = readObject(value, field);
  const { retryPolicy, hedgingPolicy, timeout } = method;
  if (isSet(retryPolicy) && isSet(hedgingPolicy)) {
    refuse(field, "without hedgingPolicy if it has retryPolicy", value);
  }
  return {
    field,
    names: readList(method["name"], `${field}.name`).map((name, index) =>
      readName(name, `${field}.name[${index}]`),
    ),
    timeoutMs: isSet(timeout) ? readPositiveSeconds(timeout, `${field}.timeout`) : undefined,
    retry: isSet(retryPolicy) ? readObject(retryPolicy, `${field}.retryPolicy`) : undefined,
    hedging: isSet(hedgingPolicy) ? readObject(hedgingPolicy, `${field}.hedgingPolicy`) : undefined,
  };
}

function readName(value: unknown, field: string): string {
  const { service, method } = readObject(value, field);
  const serviceName = isSet(service) ? readText(service, `${field}.service`) : "";
  const methodName = isSet(method) ? readText(method, `${field}.method`) : "";
  if (serviceName === "" && methodName !== "") refuse(field, "with a service", value);
  return `${serviceName}/${methodName}`;
}

function choose(
  methods: readonly MethodConfig[],
  { service = "", method = "" }: GrpcTarget,
  notes: string[],
): MethodConfig | undefined {
  for (const name of [`${service}/${method}`, `${service}/`, "/"]) {
    const found = methods.find((one) => one.names.includes(name));
    if (found !== undefined) return found;
  }
  if (service !== "" || methods.length === 0) {
    notes.push("No methodConfig matches: gRPC makes one attempt.");
    return undefined;
  }
  const names = quote(methods.flatMap((one) => one.names).join(" "));
  if (methods.length > 1) {
    const text = `methodConfig has no entry for all methods: choose one of ${names}`;
    throw new RedriveError("INVALID_IMPORT", text);
  }
  notes.push(`No entry is for all methods; the only one, for ${names}, is used.`);
  return methods[0];
}

function readTimeout(method: MethodConfig | undefined, notes: string[]): PolicyDocument {
  if (method === undefined) return {};
  if (method.timeoutMs === undefined) {
    notes.push("The method has no timeout, so Redrive's default of 30 s limits the whole call.");
    return {};
  }
  const attemptTimeoutMs = Math.min(600_000, Math.max(100, method.timeoutMs));
  return { totalBudgetMs: method.timeoutMs, attemptTimeoutMs };
}

function readRetry(retry: Part, field: string, notes: string[]): PolicyDocument {
  const initialMs = readPositiveSeconds(retry["initialBackoff"], `${field}.initialBackoff`);
  const maxDelayMs = readPositiveSeconds(retry["maxBackoff"], `${field}.maxBackoff`);
  const multiplier = readPositive(retry["backoffMultiplier"], `${field}.backoffMultiplier`);
  const codes = readCodes(retry["retryableStatusCodes"], `${field}.retryableStatusCodes`, notes);
  if (codes.length === 0) refuse(`${field}.retryableStatusCodes`, "a list with entries", codes);
  if (isSet(retry["perAttemptRecvTimeout"])) {
    notes.push("perAttemptRecvTimeout is experimental in gRPC; left out.");
  }
  return {
    maxAttempts: readAttempts(retry["maxAttempts"], `${field}.maxAttempts`, notes),
    backoff: "EXPONENTIAL",
    initialDelayMs: clampWithNote(notes, "initialBackoff in ms", initialMs, [0, maxDelayMs]),
    multiplier: clampWithNote(notes, "backoffMultiplier", multiplier, [1, 10]),
    maxDelayMs,
    jitterType: "PROPORTIONAL",
    jitterRatio: GRPC_JITTER_RATIO,
    retryableGrpcCodes: codes,
  };
}

function readHedging(hedging: Part, field: string, notes: string[]): Policies {
  const { hedgingDelay, nonFatalStatusCodes } = hedging;
  const delayMs = isSet(hedgingDelay) ? readSeconds(hedgingDelay, `${field}.hedgingDelay`) : 0;
  const codes = isSet(nonFatalStatusCodes)
    ? readCodes(nonFatalStatusCodes, `${field}.nonFatalStatusCodes`, notes)
    : [];
  const attempts = readAttempts(hedging["maxAttempts"], `${field}.maxAttempts`, notes);
  notes.push(
    "gRPC sends the next hedge at once after a non-fatal status; Redrive waits for its delay.",
  );
  const after = clampWithNote(notes, "hedgingDelay in ms", delayMs, [1, 600_000]);
  return {
    policy: { maxAttempts: 1, retryableGrpcCodes: codes },
    hedge: { hedge: { after, max: attempts - 1 } },
  };
}

function readAttempts(value: unknown, field: string, notes: string[]): number {
  const attempts = readInteger(value, field, 2);
  if (attempts > GRPC_MAX_ATTEMPTS) {
    notes.push(`maxAttempts ${attempts} became 5, as in gRPC: no client makes more.`);
  }
  return Math.min(attempts, GRPC_MAX_ATTEMPTS);
}

/** Names in upper or lower case, or numbers; each code once, ordered by number. */
function readCodes(value: unknown, field: string, notes: string[]): readonly GrpcCode[] {
  const named = new Set(readList(value, field).map((code) => readCode(code, field)));
  if (named.has("CANCELLED")) {
    notes.push("Redrive never repeats CANCELLED, because the caller asked for it.");
  }
  return GRPC_CODES.filter((code) => named.has(code));
}

function readCode(value: unknown, field: string): GrpcCode {
  const wanted = typeof value === "string" ? value.toUpperCase() : value;
  const found = GRPC_CODES.find((code, number) => code === wanted || number === wanted);
  return found ?? refuse(field, "a list of gRPC codes, by name or number", value);
}

function readThrottling(value: unknown, notes: string[]): Pick<DestinationParts, "retryBudget"> {
  if (!isSet(value)) {
    notes.push("The config has no retryThrottling, so Redrive's own retry budget applies.");
    return {};
  }
  const throttling = readObject(value, "retryThrottling");
  const maxTokens = readPositive(throttling["maxTokens"], "retryThrottling.maxTokens");
  const tokenRatio = readPositive(throttling["tokenRatio"], "retryThrottling.tokenRatio");
  if (maxTokens > 1000) refuse("retryThrottling.maxTokens", "at most 1000", maxTokens);
  // gRPC keeps three decimals of both.
  const thousandths = (number: number) => Math.floor(number * 1000 + 0.5) / 1000;
  return {
    retryBudget: {
      kind: "GRPC",
      maxTokens: clampWithNote(notes, "maxTokens", thousandths(maxTokens), [1, 1000]),
      tokenRatio: clampWithNote(notes, "tokenRatio", thousandths(tokenRatio), [0.001, 1000]),
    },
  };
}

// Writes a policy and its guards as a gRPC service config. Notes report what gRPC cannot express.

interface GrpcRetryPolicy {
  readonly maxAttempts: number;
  readonly initialBackoff: string;
  readonly maxBackoff: string;
  readonly backoffMultiplier: number;
  readonly retryableStatusCodes: readonly GrpcCode[];
}

interface GrpcHedgingPolicy {
  readonly maxAttempts: number;
  readonly hedgingDelay: string;
  readonly nonFatalStatusCodes: readonly GrpcCode[];
}

interface GrpcMethodConfig {
  readonly name: readonly GrpcTarget[];
  readonly timeout: string;
  readonly retryPolicy?: GrpcRetryPolicy;
  readonly hedgingPolicy?: GrpcHedgingPolicy;
}

export interface GrpcServiceConfig {
  readonly methodConfig: readonly GrpcMethodConfig[];
  readonly retryThrottling?: { readonly maxTokens: number; readonly tokenRatio: number };
}

interface GrpcExport {
  readonly config: GrpcServiceConfig;
  /** Full sentences about what was changed or lost. */
  readonly notes: readonly string[];
}

const KEPT_FIELDS: readonly (keyof PolicyDocument)[] = [
  "policyId",
  "description",
  "maxAttempts",
  "backoff",
  "initialDelayMs",
  "multiplier",
  "maxDelayMs",
  "jitterType",
  "jitterRatio",
  "delaysMs",
  "totalBudgetMs",
  "retryableGrpcCodes",
];

/** Writes a service config with one methodConfig for `target`; throws only for a bad policy. */
export function exportGrpc(
  document: PolicyDocument,
  destination: DestinationParts = {},
  target: GrpcTarget = {},
): GrpcExport {
  const policy = resolvePolicy(document);
  const notes: string[] = [];
  addLostNote(notes, "gRPC", document, KEPT_FIELDS);
  addLostNote(notes, "gRPC", destination, ["description", "retryBudget", "hedge"]);
  const method = {
    name: [target],
    timeout: formatSeconds(policy.totalBudgetMs),
    ...writePolicy(policy, destination.hedge || undefined, notes),
  };
  const throttling = writeThrottling(destination.retryBudget || undefined, notes);
  return { config: { methodConfig: [method], ...throttling }, notes };
}

type Hedge = Exclude<DestinationParts["hedge"], false | undefined>;

/** Either retries or hedges: gRPC refuses a method that has both. */
function writePolicy(
  policy: Policy,
  hedge: Hedge | undefined,
  notes: string[],
): Pick<GrpcMethodConfig, "retryPolicy" | "hedgingPolicy"> {
  if (policy.maxAttempts === 1)
    return hedge ? { hedgingPolicy: writeHedging(policy, hedge, notes) } : {};
  if (hedge !== undefined)
    notes.push("gRPC has retries or hedges, not both; the hedge is left out.");
  if (policy.retryableGrpcCodes.length === 0) {
    notes.push("gRPC has no retryPolicy without codes, and retryableGrpcCodes is empty; left out.");
    return {};
  }
  return { retryPolicy: writeRetry(policy, notes) };
}

function writeRetry(policy: Policy, notes: string[]): GrpcRetryPolicy {
  const curve =
    policy.delaysMs === undefined ? writeCurve(policy, notes) : writeList(policy, notes);
  const { jitterType, jitterRatio } = policy;
  if (jitterType !== "PROPORTIONAL" || jitterRatio !== GRPC_JITTER_RATIO) {
    notes.push(`gRPC always draws from 0.8 to 1.2 times the backoff, not ${jitterType}.`);
  }
  return {
    maxAttempts: writeAttempts(policy.maxAttempts, notes),
    ...curve,
    retryableStatusCodes: policy.retryableGrpcCodes,
  };
}

type Curve = Pick<GrpcRetryPolicy, "initialBackoff" | "maxBackoff" | "backoffMultiplier">;

function writeCurve(policy: CurvePolicy, notes: string[]): Curve {
  const { backoff, initialDelayMs, maxDelayMs, multiplier } = policy;
  if (backoff === "EXPONENTIAL") return curve(initialDelayMs, maxDelayMs, multiplier, notes);
  if (backoff === "FIXED") return curve(initialDelayMs, initialDelayMs, 1, notes);
  notes.push("gRPC has no LINEAR backoff; a doubling one is written instead.");
  return curve(initialDelayMs, maxDelayMs, 2, notes);
}

function writeList({ delaysMs }: ListPolicy, notes: string[]): Curve {
  const firstMs = delaysMs[0] ?? 0;
  const maxMs = delaysMs.reduce((max, one) => Math.max(max, one), 0);
  if (maxMs === firstMs && delaysMs.every((one) => one === firstMs)) {
    return curve(firstMs, firstMs, 1, notes);
  }
  notes.push(
    "gRPC has no list of delays; a curve that doubles from the first to the maximum is written.",
  );
  return curve(firstMs, maxMs, 2, notes);
}

function curve(firstMs: number, maxMs: number, multiplier: number, notes: string[]): Curve {
  if (firstMs === 0) notes.push("gRPC has no backoff of 0; 1 ms is written instead.");
  return {
    initialBackoff: formatSeconds(Math.max(1, firstMs)),
    maxBackoff: formatSeconds(Math.max(1, maxMs)),
    backoffMultiplier: multiplier,
  };
}

function writeAttempts(attempts: number, notes: string[]): number {
  if (attempts > GRPC_MAX_ATTEMPTS) {
    notes.push(`maxAttempts ${attempts} became ${GRPC_MAX_ATTEMPTS}: no gRPC client makes more.`);
  }
  return Math.min(attempts, GRPC_MAX_ATTEMPTS);
}

function writeHedging(policy: Policy, hedge: Hedge, notes: string[]): GrpcHedgingPolicy {
  const { after = "p95", max = 1 } = hedge;
  if (typeof after === "string") {
    notes.push(`gRPC has no hedge at a quantile; 1 s is written instead of ${after}.`);
  }
  if (hedge.endpoints !== undefined) notes.push("gRPC's balancer picks the backend of a hedge.");
  return {
    maxAttempts: writeAttempts(max + 1, notes),
    hedgingDelay: formatSeconds(typeof after === "string" ? 1000 : after),
    nonFatalStatusCodes: policy.retryableGrpcCodes,
  };
}

function writeThrottling(
  budget: RetryBudgetDocument | undefined,
  notes: string[],
): Pick<GrpcServiceConfig, "retryThrottling"> {
  if (budget === undefined) return {};
  if (budget.kind !== "GRPC") {
    notes.push(
      `gRPC throttles with its own tokens; the ${budget.kind ?? "RATIO"} budget is left out.`,
    );
    return {};
  }
  const { maxTokens = 10, tokenRatio = 0.1 } = budget;
  return { retryThrottling: { maxTokens, tokenRatio } };
}
