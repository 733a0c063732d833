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
  /** The rest of it is not kept: the handler cannot read it any more. */
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
  /**
   * The handler did not run, as in a refusal, or says that it had no effect. An idempotency key in front
   * of it stays free. Default: false.
   */
  readonly notExecuted?: boolean | undefined;
}

export interface Interceptor<Native = unknown> {
  /** Called before the handler. Returns a response to send instead of running the handler, or a run. */
  begin(request: ServedRequest<Native>): Promise<PlainResponse | HandlerRun>;
}

/**
 * A handler that runs. When it ends, `respond`, `sent` or `failed` is called, once. `gone` may be called
 * before that, or instead of it.
 */
export interface HandlerRun {
  /**
   * Bytes of the response body to hold back until it is complete. `respond` gets the response before
   * it is sent. 0: the response is sent as the handler writes it. It may change while the handler runs.
   */
  readonly holdBytes: number;
  /**
   * On fetch and Hono, for responses that are not held: `sent` follows when the body has ended. Default:
   * it follows when the handler has returned its response.
   */
  readonly awaitsBody?: boolean;
  /** Calls the handler, as in an async context. Default: it is called directly. */
  enter?<T>(handler: () => T): T;
  /** The response is complete and nothing of it was sent. Returns the response to send. */
  respond(response: PlainResponse): Promise<PlainResponse>;
  /** The handler has ended a response that was sent as it was written. */
  sent(status: number): void;
  /**
   * The handler threw, and nothing of its response was sent. `answer` is the response that stands for the
   * error where no framework writes one. Returns a response to send instead of passing the error on.
   */
  failed(error: unknown, answer: PlainResponse): Promise<PlainResponse | undefined>;
  /**
   * The connection is closed, or was given up, and the response is not complete. `part` is what the
   * handler had written, if nothing of it was sent. `isOver`: the handler will not complete it.
   */
  gone(isOver: boolean, part?: PlainResponse): void;
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
  gone: () => undefined,
};

/** Calls the handler of a run. */
export function enterRun<T>(run: HandlerRun, handler: () => T): T {
  return run.enter === undefined ? handler() : run.enter(handler);
}
