/** For Fastify: an interceptor as a `preHandler` hook, for one route or for all routes of a plugin. */
import type { Interceptor, ServedBody } from "./interceptor.ts";
import { nodeBody } from "./node-body.ts";
import type { NodeHeaderValue, NodeRequest, NodeResponse } from "./node-types.ts";
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

export function forFastify<Request extends FastifyRequestLike>(
  interceptor: Interceptor<Request>,
): (request: Request, reply: FastifyReplyLike) => Promise<void> {
  return async (request, reply) => {
    const body = (maxBytes: number) => fastifyBody(request, maxBytes);
    const served = servedNode(request, request.raw, reply.raw, { target: request.url, body });
    await beginOnNode(interceptor, served, reply.raw, () => takeOver(reply));
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
