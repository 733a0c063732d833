/**
 * Informational: lets a target send `100 Continue` although the request did not ask for it. RFC
 * 9110 (15.2) requires that of a client. undici ignores every informational response except 100,
 * for which it destroys the connection.
 */
import type { Socket } from "node:net";
import { parserOf } from "./undici-parser.ts";

const CONTINUE = 100;
/** `102 Processing`: undici ignores it, and so does an attempt. */
const IGNORED = 102;

/**
 * Call it after undici has taken the socket over. The cost is one call per response and nothing per
 * byte. If undici changes its internals, nothing is done here, and 100 fails an attempt again.
 */
export function acceptContinue(socket: Socket): void {
  const parser = parserOf(socket);
  if (parser === undefined) return;
  const complete = parser.onHeadersComplete;
  parser.onHeadersComplete = (status, isUpgrade, isKeptAlive) =>
    complete.call(parser, status === CONTINUE ? IGNORED : status, isUpgrade, isKeptAlive);
}
