/**
 * Limited server: Node's HTTP server with limits on connections: how many, how many of one address,
 * how many requests of one connection, and how long a client may leave its response unread.
 */
import { createServer, type Server, type ServerOptions } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "@redrive/core";
import { serviceError } from "../../model/errors.ts";
import { endSocket } from "../response/error-response.ts";
import { AddressLimit } from "./address-limit.ts";
import { PipelineLimit, type RequestHandler } from "./pipeline-limit.ts";
import { SlowReaders } from "./slow-readers.ts";

export interface ConnectionLimits {
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  readonly sendTimeoutMs: number;
}

export function createLimitedServer(
  clock: Clock,
  limits: ConnectionLimits,
  options: ServerOptions,
  handle: RequestHandler,
): Server {
  const server = createServer(options, new PipelineLimit(handle).handle);
  server.maxConnections = limits.maxConnections;
  const addresses = new AddressLimit(limits.maxConnectionsPerAddress);
  const readers = new SlowReaders(clock, limits.sendTimeoutMs);
  server.on("connection", (socket: Socket) => {
    readers.watch(socket);
    const leave = addresses.enter(socket.remoteAddress);
    if (leave !== undefined) socket.once("close", leave);
    else refuse(socket, limits.maxConnectionsPerAddress);
  });
  return server;
}

function refuse(socket: Socket, max: number): void {
  const text = `this address has ${max} open connections, which is the limit: reuse them`;
  endSocket(socket, serviceError("TOO_MANY_REQUESTS", text));
}
