/**
 * Received limit: closes a connection on which the target sends too many bytes for one response. The
 * length of the body has its own limit, but a target can send other bytes without end: informational
 * responses, line ends before a response, a status line, the size or the extension of a chunk. They would
 * keep the processor busy until the deadline of the attempt.
 */
import type { Socket } from "node:net";
import { MAX_READ_BODY } from "./response.ts";
import { parserOf } from "./undici-parser.ts";

/**
 * Bytes from the head of one response to the head of the next. A body of the length that is read fits
 * several times, because small chunks need more bytes than they contain.
 */
const MAX_RECEIVED = 4 * MAX_READ_BODY;

/** Informational responses before a response. They are short, but each costs as much time as a response. */
const MAX_INFORMATIONAL = 1000;

/** Its code has the prefix of the codes of undici's parser, so that it counts as an invalid response. */
export class ReceivedTooMuch extends Error {
  override readonly name = "ReceivedTooMuch";
  readonly code = "HPE_TOO_MANY_BYTES";

  constructor() {
    super(`more than ${MAX_RECEIVED} bytes or ${MAX_INFORMATIONAL} heads for one response`);
  }
}

/** Call it after undici has taken the socket over. The cost is one addition for each read and head. */
export function limitReceived(socket: Socket): void {
  const parser = parserOf(socket);
  if (parser === undefined) return;
  let received = 0;
  let informational = 0;
  const read = socket.read;
  socket.read = (size) => {
    const chunk = read.call(socket, size);
    if (chunk === null) return null;
    received += chunk.length;
    if (received <= MAX_RECEIVED) return chunk;
    socket.destroy(new ReceivedTooMuch());
    return null;
  };
  const complete = parser.onHeadersComplete;
  parser.onHeadersComplete = (status, isUpgrade, isKeptAlive) => {
    if (status >= FINAL_STATUS) received = informational = 0;
    else if (++informational > MAX_INFORMATIONAL) socket.destroy(new ReceivedTooMuch());
    // For a destroyed socket, undici stops the parser.
    return complete.call(parser, status, isUpgrade, isKeptAlive);
  };
}

/** Lower ones are informational. */
const FINAL_STATUS = 200;
