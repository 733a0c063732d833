/**
 * Node types: the parts of `node:http` that the adapters use. The library is compiled without the types
 * of Node, because it also runs elsewhere. Requests and responses of Express, Fastify and HTTP/2 fit too.
 */

export interface NodeRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Whether the whole message has arrived; in HTTP/2, whether it was read as well. */
  readonly complete: boolean;
  /** Of HTTP/2. */
  readonly stream?: { readonly readableEnded: boolean };
  readonly readableLength: number;
  readonly readableDidRead: boolean;
  read(): unknown;
  unshift(chunk: Uint8Array): void;
  on(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
}

export type NodeHeaderValue = number | string | readonly string[];

export interface NodeResponse {
  statusCode: number;
  statusMessage?: string | undefined;
  readonly headersSent: boolean;
  /** Whether the connection is closed. Responses of HTTP/2 do not have it. */
  readonly destroyed?: boolean;
  /** Of HTTP/2. */
  readonly stream?: { readonly destroyed: boolean };
  setHeader(name: string, value: NodeHeaderValue): unknown;
  getHeader(name: string): NodeHeaderValue | undefined;
  getHeaderNames(): string[];
  /** The names as they were written. Responses of HTTP/2 do not have it. */
  getRawHeaderNames?(): string[];
  removeHeader(name: string): void;
  writeHead(status: number): unknown;
  write(chunk: Uint8Array): boolean;
  end(body: Uint8Array, callback?: () => void): unknown;
  flushHeaders(): void;
  destroy(error?: unknown): unknown;
  once(event: string, listener: () => void): unknown;
}
