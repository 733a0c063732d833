/**
 * gRPC config: reads the retry, hedging and throttling parts of a gRPC service config (gRFC A6), so you
 * can simulate and run the behavior of gRPC clients here. `grpc-export.ts` writes it.
 */
import { quote } from "../errors/assert.ts";
import { RedriveError } from "../errors/errors.ts";
import { GRPC_CODES, type GrpcCode } from "../policy/error-classes.ts";
import type { PolicyDocument } from "../policy/policy.ts";
import {
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
export const GRPC_MAX_ATTEMPTS = 5;

/** gRPC draws each wait from 0.8 to 1.2 times its backoff. */
export const GRPC_JITTER_RATIO = 0.2;

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
