/**
 * Interceptor: what stands between a server's framework and its handlers. It answers a request itself, or
 * lets the handler run and learns how that ended. The adapters in this folder (`forNode`, `forFetch` and
 * so on) call it, so an interceptor knows no framework.
 */

/** A request in the form that all frameworks share. `Native` is the framework's own request. */
export interface ServedRequest<Native = unknown> {
  /** In capitals. */
  readonly method: string;
  /** Path and query, such as `/charges?expand=card`. */
  readonly target: string;
  /** The value of a header, or undefined. Several headers of one name are joined with a comma. */
  header(name: string): string | undefined;
  /** The body: its bytes, or what a parser of the framework made of it. The handler can still read it. */
  body(maxBytes: number): ServedBody | Promise<ServedBody>;
  /** Calls the listener when the client has closed the connection, if the framework tells. */
  onGone(listener: () => void): void;
  /**
   * The framework's own request: `IncomingMessage`, the request of Express or Fastify, the context of
   * Hono, or `Request`.
   */
  readonly native: Native;
}

export type ServedBody =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "parsed"; readonly value: unknown }
  | { readonly kind: "too-large" }
  /** The connection was closed before all of it had arrived. */
  | { readonly kind: "incomplete" }
  /** Somebody has read the body and has not kept it. */
  | { readonly kind: "gone" };

/** A complete response. */
export interface PlainResponse {
  readonly status: number;
  /** In order. A name may occur several times. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

export interface Interceptor<Native = unknown> {
  /** Called before the handler. Returns a response to send instead of running the handler, or a run. */
  begin(request: ServedRequest<Native>): Promise<PlainResponse | HandlerRun>;
}

/** A handler that runs. One of its functions is called, once, when it ends. */
export interface HandlerRun {
  /**
   * Bytes of the response body to hold back until it is complete. `respond` gets the response before
   * it is sent. 0: the response is sent as the handler writes it.
   */
  readonly holdBytes: number;
  /** The response is complete and nothing of it was sent. Returns the response to send. */
  respond(response: PlainResponse): Promise<PlainResponse>;
  /** The response was sent as the handler wrote it, because it is too large to hold or `holdBytes` is 0. */
  sent(status: number): void;
  /** The handler threw. Returns a response to send instead of passing the error on. */
  failed(error: unknown): Promise<PlainResponse | undefined>;
}

export function isRun(begun: PlainResponse | HandlerRun): begun is HandlerRun {
  return "respond" in begun;
}

/** For requests that an interceptor passes on as they are. */
export const PASS_ON: HandlerRun = {
  holdBytes: 0,
  respond: async (response) => response,
  sent: () => undefined,
  failed: async () => undefined,
};
