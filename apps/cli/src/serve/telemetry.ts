/**
 * Telemetry: what to export to OpenTelemetry, and the SDK with its exporters, which are loaded only
 * if they are configured and flushed at the end.
 */
import type { MetricReader } from "@opentelemetry/sdk-metrics";
import type { SpanExporter } from "@opentelemetry/sdk-trace-base";
import {
  booleanRule,
  type Clock,
  causedError,
  checkFields,
  choiceRule,
  type FieldProblem,
  type Fields,
  quote,
  RedriveError,
  systemClock,
  textRule,
} from "@redrive/core";
import type { TelemetryOptions } from "@redrive/service";

export interface RunningTelemetry {
  /** For `createRedrive`. */
  readonly options: TelemetryOptions;
  /** Reports failed exports, without the data that was not exported. */
  onProblem(listener: (message: string) => void): void;
  /** Exports what is left, for at most 5 s. */
  shutdown(): Promise<void>;
}

const SCOPE = "@redrive/service";
const SHUTDOWN_MS = 5000;
const MAX_PROBLEM = 300;

/** Loads the packages of each part. All are optional, and a missing one is named. */
export interface Loaders {
  readonly api: () => Promise<typeof import("@opentelemetry/api")>;
  readonly resources: () => Promise<typeof import("@opentelemetry/resources")>;
  readonly traces: () => Promise<typeof import("@opentelemetry/sdk-trace-base")>;
  readonly metrics: () => Promise<typeof import("@opentelemetry/sdk-metrics")>;
  readonly "traces http/protobuf": () => Promise<
    typeof import("@opentelemetry/exporter-trace-otlp-proto")
  >;
  readonly "traces http/json": () => Promise<
    typeof import("@opentelemetry/exporter-trace-otlp-http")
  >;
  readonly "metrics http/protobuf": () => Promise<
    typeof import("@opentelemetry/exporter-metrics-otlp-proto")
  >;
  readonly "metrics http/json": () => Promise<
    typeof import("@opentelemetry/exporter-metrics-otlp-http")
  >;
}

const LOADERS: Loaders = {
  api: () => import("@opentelemetry/api"),
  resources: () => import("@opentelemetry/resources"),
  traces: () => import("@opentelemetry/sdk-trace-base"),
  metrics: () => import("@opentelemetry/sdk-metrics"),
  "traces http/protobuf": () => import("@opentelemetry/exporter-trace-otlp-proto"),
  "traces http/json": () => import("@opentelemetry/exporter-trace-otlp-http"),
  "metrics http/protobuf": () => import("@opentelemetry/exporter-metrics-otlp-proto"),
  "metrics http/json": () => import("@opentelemetry/exporter-metrics-otlp-http"),
};

/** The names that `npm install` needs. */
const PACKAGES: Readonly<Record<keyof Loaders, string>> = {
  api: "@opentelemetry/api",
  resources: "@opentelemetry/resources",
  traces: "@opentelemetry/sdk-trace-base",
  metrics: "@opentelemetry/sdk-metrics",
  "traces http/protobuf": "@opentelemetry/exporter-trace-otlp-proto",
  "traces http/json": "@opentelemetry/exporter-trace-otlp-http",
  "metrics http/protobuf": "@opentelemetry/exporter-metrics-otlp-proto",
  "metrics http/json": "@opentelemetry/exporter-metrics-otlp-http",
};

interface TelemetryParts {
  readonly environment: Environment;
  readonly version: string;
  readonly clock?: Clock;
  readonly loaders?: Loaders;
}

/** Throws `INVALID_ARGUMENT` with the packages to install if one is missing. */
export async function startTelemetry(
  config: TelemetryConfig,
  { environment, version, clock = systemClock, loaders = LOADERS }: TelemetryParts,
): Promise<RunningTelemetry> {
  const load = loader(config, loaders);
  const { diag, DiagLogLevel } = await load("api");
  const resource = await resourceOf(config, version, load);
  const tracing = config.traces && (await tracerProvider(config.traces, resource, load));
  const measuring =
    config.metrics && (await meterProvider(config.metrics, environment, resource, load));
  let report = (_message: string) => {};
  return {
    options: {
      ...(tracing && { tracer: tracing.getTracer(SCOPE, version) }),
      ...(measuring && { meter: measuring.getMeter(SCOPE, version) }),
    },
    onProblem(listener) {
      report = (message) => listener(message.slice(0, MAX_PROBLEM));
      const silent = () => {};
      const logger = { error: report, warn: report, info: silent, debug: silent, verbose: silent };
      diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
    },
    async shutdown() {
      const shutdowns = [tracing, measuring].map(async (one) => one?.shutdown());
      const ended = Promise.all(
        shutdowns.map((one) => one.catch((error) => report(String(error)))),
      );
      await Promise.race([ended, clock.sleep(SHUTDOWN_MS)]);
    },
  };
}

type Load = <Name extends keyof Loaders>(name: Name) => ReturnType<Loaders[Name]>;

function loader({ source, traces, metrics }: TelemetryConfig, loaders: Loaders): Load {
  const needed: (keyof Loaders)[] = ["api", "resources"];
  if (traces !== undefined) needed.push("traces", `traces ${traces.protocol}`);
  if (metrics !== undefined) needed.push("metrics", `metrics ${metrics.protocol}`);
  const names = needed.map((name) => PACKAGES[name]).join(" ");
  const load = async (name: keyof Loaders) => {
    try {
      return await loaders[name]();
    } catch (error) {
      const text = `OpenTelemetry is turned on by ${source}, but ${PACKAGES[name]} cannot be loaded: run \`npm install ${names}\``;
      throw causedError("INVALID_ARGUMENT", text, error);
    }
  };
  return load as Load;
}

type Resource = import("@opentelemetry/resources").Resource;

/**
 * The service and what OTEL_RESOURCE_ATTRIBUTES says. Nothing is detected from the process: its command
 * line may contain the password of a store.
 */
async function resourceOf(
  { serviceName }: TelemetryConfig,
  version: string,
  load: Load,
): Promise<Resource> {
  const { detectResources, envDetector, resourceFromAttributes } = await load("resources");
  const own = resourceFromAttributes({
    "service.name": serviceName,
    "service.version": version,
  });
  return own.merge(detectResources({ detectors: [envDetector] }));
}

/** The SDK reads the sampler, the limits and the batches from the environment. */
async function tracerProvider({ protocol, url }: SignalConfig, resource: Resource, load: Load) {
  const { BasicTracerProvider, BatchSpanProcessor } = await load("traces");
  const { OTLPTraceExporter } = await load(`traces ${protocol}`);
  const exporter: SpanExporter = new OTLPTraceExporter(url === undefined ? {} : { url });
  return new BasicTracerProvider({ resource, spanProcessors: [new BatchSpanProcessor(exporter)] });
}

async function meterProvider(
  { protocol, url }: SignalConfig,
  environment: Environment,
  resource: Resource,
  load: Load,
) {
  const { MeterProvider, PeriodicExportingMetricReader } = await load("metrics");
  const { OTLPMetricExporter } = await load(`metrics ${protocol}`);
  const exporter = new OTLPMetricExporter(url === undefined ? {} : { url });
  const intervalMs = Number(environment["OTEL_METRIC_EXPORT_INTERVAL"]);
  const interval = intervalMs > 0 ? { exportIntervalMillis: intervalMs } : {};
  const reader: MetricReader = new PeriodicExportingMetricReader({ exporter, ...interval });
  return new MeterProvider({ resource, readers: [reader] });
}

// Telemetry config: what to export to OpenTelemetry, from the standard environment variables and
// from the configuration file of the service. The environment takes precedence.

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

type Protocol = "http/protobuf" | "http/json";
type Signal = "traces" | "metrics";

/** One kind of data to export. */
interface SignalConfig {
  readonly protocol: Protocol;
  /** Undefined: the exporter reads it from the environment, or uses its default. */
  readonly url: string | undefined;
}

interface TelemetryConfig {
  /** Unless the environment names the service. */
  readonly serviceName: string;
  readonly traces: SignalConfig | undefined;
  readonly metrics: SignalConfig | undefined;
  /** The variable or field that turns it on, for messages. */
  readonly source: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

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
