/** An OTLP/HTTP receiver for tests: collects the spans and metrics that are exported to it as JSON. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

type Value = string | number | boolean;

export interface ReceivedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly kind: number;
  /** In ms. */
  readonly durationMs: number;
  readonly startedAt: number;
  readonly attributes: Readonly<Record<string, Value>>;
  readonly events: readonly {
    readonly name: string;
    readonly attributes: Readonly<Record<string, Value>>;
  }[];
  /** 2: an error. */
  readonly status: number;
}

export interface OtlpReceiver {
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  /** The names of the metrics so far. */
  readonly metrics: ReadonlySet<string>;
  readonly resource: Readonly<Record<string, Value>>;
  /** Every request as text, and its content type. */
  readonly requests: readonly {
    readonly path: string;
    readonly type: string;
    readonly text: string;
  }[];
  close(): Promise<void>;
}

// biome-ignore lint/suspicious/noExplicitAny: the JSON of OTLP has no types here
type Json = any;

export async function otlpReceiver(status = 200): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const metrics = new Set<string>();
  const requests: { path: string; type: string; text: string }[] = [];
  const resource: Record<string, Value> = {};
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString("latin1");
    const { url: path = "", headers } = request;
    const type = headers["content-type"] ?? "";
    requests.push({ path, type, text });
    if (type === "application/json") read(JSON.parse(Buffer.from(text, "latin1").toString()));
    response.writeHead(status, { "content-type": "application/json" }).end("{}");
  });
  const read = ({ resourceSpans = [], resourceMetrics = [] }: Json) => {
    for (const { resource: from, scopeSpans } of resourceSpans) {
      Object.assign(resource, valuesOf(from.attributes));
      for (const scope of scopeSpans) spans.push(...scope.spans.map(spanOf));
    }
    for (const { scopeMetrics } of resourceMetrics) {
      for (const scope of scopeMetrics) for (const { name } of scope.metrics) metrics.add(name);
    }
  };
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    metrics,
    resource,
    requests,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function spanOf(span: Json): ReceivedSpan {
  const startedAt = Number(BigInt(span.startTimeUnixNano) / 1_000_000n);
  return {
    name: span.name,
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId,
    kind: span.kind,
    startedAt,
    durationMs: Number(BigInt(span.endTimeUnixNano) / 1_000_000n) - startedAt,
    attributes: valuesOf(span.attributes),
    events: span.events.map(({ name, attributes }: Json) => ({
      name,
      attributes: valuesOf(attributes),
    })),
    status: span.status.code,
  };
}

function valuesOf(attributes: Json): Readonly<Record<string, Value>> {
  return Object.fromEntries(
    attributes.map(({ key, value }: Json) => [key, Object.values(value)[0] as Value]),
  );
}
