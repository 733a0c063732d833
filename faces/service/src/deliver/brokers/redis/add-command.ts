/** Add command: the XADD that adds a message to a stream, with a field for each of its headers. */
import type { RedisPlace } from "../../address-guard/broker-target.ts";
import type { BrokerMessage } from "../session/broker-message.ts";

/** The name of the field with the body. */
export const BODY_FIELD = "body";

export function addCommand(place: RedisPlace, message: BrokerMessage): (string | Uint8Array)[] {
  const { stream, maxLen, creates } = place;
  const { id, contentType, contentEncoding, headers, body } = message;
  const command: (string | Uint8Array)[] = ["XADD", stream];
  if (!creates) command.push("NOMKSTREAM");
  if (maxLen !== undefined) command.push("MAXLEN", "~", String(maxLen));
  command.push("*", "idempotency-key", id);
  if (contentType !== undefined) command.push("content-type", contentType);
  if (contentEncoding !== undefined) command.push("content-encoding", contentEncoding);
  for (const [name, value] of headers) command.push(name, value);
  command.push(BODY_FIELD, body);
  return command;
}
