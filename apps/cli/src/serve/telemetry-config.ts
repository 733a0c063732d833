/**
 * Telemetry config: what to export to OpenTelemetry, from the standard environment variables and from the
 * configuration file of the service. The environment takes precedence.
 */
import {
  booleanRule,
  checkFields,
  choiceRule,
  type FieldProblem,
  type Fields,
  quote,
  RedriveError,
  textRule,
} from "@redrive/core";

/** The field `telemetry` of the configuration file. */
export interface TelemetryFile {
  /** Where the collector listens, such as `http://127.0.0.1:4318`. */
  readonly endpoint?: string;
  readonly protocol?: Protocol;
  /** Default: `redrive`. */
  readonly serviceName?: string;
  /** Default: true. */
  readonly traces?: boolean;
  /** Default: false. */
  readonly metrics?: boolean;
}

export type Protocol = "http/protobuf" | "http/json";
export type Signal = "traces" | "metrics";

/** One kind of data to export. */
export interface SignalConfig {
  readonly protocol: Protocol;
  /** Undefined: the exporter reads it from the environment, or uses its default. */
  readonly url: string | undefined;
}

export interface TelemetryConfig {
  /** Unless the environment names the service. */
  readonly serviceName: string;
  readonly traces: SignalConfig | undefined;
  readonly metrics: SignalConfig | undefined;
  /** The variable or field that turns it on, for messages. */
  readonly source: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;

const PROTOCOLS = ["http/protobuf", "http/json"] as const;

const FIELDS: Fields & Readonly<Record<keyof TelemetryFile, unknown>> = {
  endpoint: textRule(/^https?:\/\/[^\s?#]{1,2000}$/u, "an http(s) URL without a query"),
  protocol: choiceRule(...PROTOCOLS),
  serviceName: textRule(/^.{1,200}$/u, "1 to 200 characters"),
  traces: booleanRule,
  metrics: booleanRule,
};

export function checkTelemetry(file: unknown): readonly FieldProblem[] {
  return checkFields(file, FIELDS).map((problem) => ({
    ...problem,
    field: `telemetry.${problem.field}`,
  }));
}

/** Undefined: nothing is to be exported. Throws `INVALID_ARGUMENT` for an exporter that is not supported. */
export function telemetryConfig(
  environment: Environment,
  file: TelemetryFile | undefined,
): TelemetryConfig | undefined {
  if (environment["OTEL_SDK_DISABLED"]?.toLowerCase() === "true") return undefined;
  const source = sourceOf(environment, file);
  if (source === undefined) return undefined;
  const traces = signalConfig("traces", environment, file);
  const metrics = signalConfig("metrics", environment, file);
  if (traces === undefined && metrics === undefined) return undefined;
  return { serviceName: file?.serviceName ?? "redrive", traces, metrics, source };
}

/** An empty variable is the same as none (OpenTelemetry's specification of environment variables). */
function valueIn(environment: Environment, name: string): string | undefined {
  const value = environment[name]?.trim();
  return value === "" ? undefined : value;
}

const SWITCHES = [
  "OTEL_EXPORTER_OTLP_ENDPOINT",
  "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
  "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
  "OTEL_TRACES_EXPORTER",
  "OTEL_METRICS_EXPORTER",
];

function sourceOf(environment: Environment, file: TelemetryFile | undefined): string | undefined {
  const found = SWITCHES.find((name) => valueIn(environment, name) !== undefined);
  return found ?? (file === undefined ? undefined : "telemetry in the configuration file");
}

function signalConfig(
  signal: Signal,
  environment: Environment,
  file: TelemetryFile | undefined,
): SignalConfig | undefined {
  const upper = signal.toUpperCase();
  const exporterName = `OTEL_${upper}_EXPORTER`;
  const exporter = valueIn(environment, exporterName);
  if (exporter !== undefined && exporter !== "otlp" && exporter !== "none") {
    throw invalid(`${exporterName} must be otlp or none, got ${quote(exporter)}`);
  }
  const own = valueIn(environment, `OTEL_EXPORTER_OTLP_${upper}_ENDPOINT`);
  const endpoint = own ?? valueIn(environment, "OTEL_EXPORTER_OTLP_ENDPOINT");
  // Metrics need more packages, and the service has metrics for Prometheus, so they are off by default.
  const isDefault = file?.[signal] ?? (signal === "traces" || own !== undefined);
  if (exporter === "none" || (exporter === undefined && !isDefault)) return undefined;
  const isFromFile = endpoint === undefined && file?.endpoint !== undefined;
  return {
    protocol: protocolOf(upper, environment, file),
    url: isFromFile ? `${file.endpoint?.replace(/\/*$/u, "")}/v1/${signal}` : undefined,
  };
}

function protocolOf(
  upper: string,
  environment: Environment,
  file: TelemetryFile | undefined,
): Protocol {
  const own = `OTEL_EXPORTER_OTLP_${upper}_PROTOCOL`;
  const name = valueIn(environment, own) === undefined ? "OTEL_EXPORTER_OTLP_PROTOCOL" : own;
  const given = valueIn(environment, name) ?? file?.protocol ?? "http/protobuf";
  const known = PROTOCOLS.find((one) => one === given);
  if (known !== undefined) return known;
  throw invalid(`${name} must be http/protobuf or http/json, got ${quote(given)}`);
}

function invalid(message: string): Error {
  return new RedriveError("INVALID_ARGUMENT", message);
}
