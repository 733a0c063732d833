/** A gRPC server for tests: grpc-js on this machine, with methods that take and return raw bytes. */
import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { Certificate } from "./certificate.testing.ts";

export type Bytes = Buffer;
export type ServedCall = ServerUnaryCall<Bytes, Bytes>;
export type Handler = (call: ServedCall, respond: sendUnaryData<Bytes>) => void;

export interface GrpcTestServer {
  readonly port: number;
  /** The calls so far. */
  readonly calls: readonly ServedCall[];
  /** `method`: the name of a handler. */
  url(method: string, host?: string): string;
  close(): void;
}

const asIs = (bytes: Bytes) => bytes;

/** Serves each handler as a method of `test.Service`. */
export async function grpcTestServer(
  handlers: Readonly<Record<string, Handler>>,
  tls?: Certificate,
): Promise<GrpcTestServer> {
  const calls: ServedCall[] = [];
  const server = new Server();
  const implementation: UntypedServiceImplementation = {};
  const methods = Object.entries(handlers).map(([name, handle]) => {
    implementation[name] = (call: ServedCall, respond: sendUnaryData<Bytes>) => {
      calls.push(call);
      handle(call, respond);
    };
    return [name, methodOf(name)] as const;
  });
  server.addService(Object.fromEntries(methods), implementation);
  const credentials = tls
    ? ServerCredentials.createSsl(null, [
        { private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.cert) },
      ])
    : ServerCredentials.createInsecure();
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", credentials, (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  const scheme = tls ? "grpcs" : "grpc";
  return {
    port,
    calls,
    url: (method, host = "127.0.0.1") => `${scheme}://${host}:${port}/test.Service/${method}`,
    close: () => server.forceShutdown(),
  };
}

function methodOf(name: string) {
  return {
    path: `/test.Service/${name}`,
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  } as const;
}

/** Responds with the bytes of the request. */
export const echo: Handler = (call, respond) => respond(null, call.request);

/** Fails with a code, a message and trailers. */
export function failing(
  code: number,
  details = "no",
  trailers: Readonly<Record<string, string>> = {},
): Handler {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(trailers)) metadata.set(name, value);
  return (_call, respond) => respond({ code, details, metadata });
}
