/**
 * undici parser: the parser that undici 7 keeps on the socket of a connection. Only the parser of one
 * connection is changed, so other users of undici in the process are not affected.
 */
import type { Socket } from "node:net";

/** The part of the parser that is used here. It calls this once per head. */
export interface ResponseParser {
  onHeadersComplete(status: number, isUpgrade: boolean, isKeptAlive: boolean): number;
}

/** The name of the symbol under which the parser is kept. */
const PARSER = "parser";

/** Undefined if undici has changed its internals. */
export function parserOf(socket: Socket): ResponseParser | undefined {
  const key = Object.getOwnPropertySymbols(socket).find(
    ({ description }) => description === PARSER,
  );
  const parser = key && (socket as unknown as Record<symbol, ResponseParser | null>)[key];
  return typeof parser?.onHeadersComplete === "function" ? parser : undefined;
}
