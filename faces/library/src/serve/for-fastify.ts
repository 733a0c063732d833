/** For Fastify: an interceptor as a `preHandler` hook, for one route or for all routes of a plugin. */
import { enterRun, type Interceptor, type ServedBody } from "./interceptor.ts";
import {
  type NodeHeaderValue,
  type NodeRequest,
  type NodeResponse,
  nodeBody,
} from "./node-http.ts";
import { beginOnNode, servedNode } from "./on-node.ts";

/** The parts of a request of Fastify that are used. */
export interface FastifyRequestLike {
  readonly raw: NodeRequest;
  readonly url: string;
  readonly body?: unknown;
}

/** The parts of a reply of Fastify that are used. */
export interface FastifyReplyLike {
  readonly raw: NodeResponse;
  getHeaders(): Readonly<Record<string, NodeHeaderValue | undefined>>;
  hijack(): unknown;
}

/** A hook of Fastify that calls `done`, so that what comes after it may run in an async context. */
export type FastifyHook<Request> = (
  request: Request,
  reply: FastifyReplyLike,
  done: (error?: Error) => void,
) => void;

export function forFastify<Request extends FastifyRequestLike>(
  interceptor: Interceptor<Request>,
): FastifyHook<Request> {
  return (request, reply, done) => {
    const body = (maxBytes: number) => fastifyBody(request, maxBytes);
    const served = servedNode(request, request.raw, reply.raw, { target: request.url, body });
    void beginOnNode(interceptor, served, reply.raw, () => takeOver(reply)).then(
      (begun) => begun !== undefined && enterRun(begun.run, () => done()),
      done,
    );
  };
}

/** The answer has the headers that earlier hooks have set, such as those for CORS. */
function takeOver(reply: FastifyReplyLike): void {
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  reply.hijack();
}

/** Fastify keeps the parsed body on its own request. */
function fastifyBody(
  { body, raw }: FastifyRequestLike,
  maxBytes: number,
): ServedBody | Promise<ServedBody> {
  if (body instanceof Uint8Array) return { kind: "bytes", bytes: body };
  const isParsed = body !== undefined && body !== null && raw.readableDidRead;
  return isParsed ? { kind: "parsed", value: body } : nodeBody(raw, maxBytes);
}
