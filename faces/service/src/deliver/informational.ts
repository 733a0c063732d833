/**
 * Informational: lets a target send `100 Continue` although the request did not ask for it. RFC
 * 9110 (15.2) requires that of a client. undici ignores every informational response except 100,
 * for which it destroys the connection.
 */
import type { Socket } from "node:net";

/** The part of undici's response parser that is used here. It calls this once per head. */
interface ResponseParser {
  onHeadersComplete(status: number, isUpgrade: boolean, isKeptAlive: boolean): number;
}

/** The name of the symbol under which undici 7 keeps a connection's parser on its socket. */
const PARSER = "parser";

const CONTINUE = 100;
/** `102 Processing`: undici ignores it, and so does an attempt. */
const IGNORED = 102;

/**
 * Call it after undici has taken the socket over. Only this connection's parser is changed: other
 * users of undici in the process are not affected. The cost is one call per response and nothing
 * per byte. If undici changes its internals, nothing is done here, and 100 fails an attempt again.
 */
export function acceptContinue(socket: Socket): void {
  const key = Object.getOwnPropertySymbols(socket).find(
    ({ description }) => description === PARSER,
  );
  const parser = key && (socket as unknown as Record<symbol, ResponseParser | null>)[key];
  if (typeof parser?.onHeadersComplete !== "function") return;
  const complete = parser.onHeadersComplete;
  parser.onHeadersComplete = (status, isUpgrade, isKeptAlive) =>
    complete.call(parser, status === CONTINUE ? IGNORED : status, isUpgrade, isKeptAlive);
}
