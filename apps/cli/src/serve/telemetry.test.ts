/** Tests of which telemetry is exported: what the environment and the file say. */
import { describe, expect, it } from "vitest";
import { checkTelemetry, telemetryConfig } from "./telemetry.ts";

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };

describe("telemetry", () => {
  it.each([
    [{}, undefined],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "" }, undefined],
    [{ OTEL_SERVICE_NAME: "shop" }, undefined],
    [{ ...ENDPOINT, OTEL_SDK_DISABLED: "true" }, undefined],
    [{ ...ENDPOINT, OTEL_TRACES_EXPORTER: "none" }, undefined],
    [{}, { endpoint: "http://a:1", traces: false }],
  ])("is off with %j and %j", (environment, file) => {
    expect(telemetryConfig(environment, file)).toBeUndefined();
  });

  it("exports traces if an endpoint or the exporter is named", () => {
    const traces = { protocol: "http/protobuf", url: undefined };
    expect(telemetryConfig(ENDPOINT, undefined)).toEqual({
      serviceName: "redrive",
      traces,
      metrics: undefined,
      source: "OTEL_EXPORTER_OTLP_ENDPOINT",
    });
    expect(telemetryConfig({ OTEL_TRACES_EXPORTER: "otlp" }, undefined)).toMatchObject({ traces });
  });

  it("exports metrics only if they are asked for", () => {
    const metrics = { protocol: "http/json", url: undefined };
    const environment = {
      ...ENDPOINT,
      OTEL_METRICS_EXPORTER: "otlp",
      OTEL_TRACES_EXPORTER: "none",
      OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "http/json",
    };
    expect(telemetryConfig(environment, undefined)).toMatchObject({ metrics, traces: undefined });
    const own = { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://a:1/v1/metrics" };
    expect(telemetryConfig(own, undefined)?.metrics).toBeDefined();
  });

  it("takes the endpoint of the file, unless the environment has one", () => {
    const file = { endpoint: "http://file:4318/", metrics: true, protocol: "http/json" } as const;
    expect(telemetryConfig({}, file)).toMatchObject({
      traces: { protocol: "http/json", url: "http://file:4318/v1/traces" },
      metrics: { protocol: "http/json", url: "http://file:4318/v1/metrics" },
      source: "telemetry in the configuration file",
    });
    expect(telemetryConfig(ENDPOINT, file)?.traces?.url).toBeUndefined();
  });

  it.each([
    [{ OTEL_TRACES_EXPORTER: "zipkin" }, 'OTEL_TRACES_EXPORTER must be otlp or none, got "zipkin"'],
    [
      { ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
      'OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or http/json, got "grpc"',
    ],
  ])("refuses %j", (environment, message) => {
    expect(() => telemetryConfig(environment, undefined)).toThrow(message);
  });

  it("refuses unknown and wrong fields of the file", () => {
    const problems = checkTelemetry({ endpoint: "collector:4318", metric: true });
    expect(problems.map(({ message }) => message)).toEqual([
      expect.stringContaining("endpoint must be an http(s) URL without a query"),
      expect.stringContaining('did you mean "metrics"?'),
    ]);
  });
});
