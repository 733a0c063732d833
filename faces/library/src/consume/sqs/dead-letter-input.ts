/**
 * Dead letter input: the message for the queue of the dead letters. SQS limits the attributes of a
 * message to ten, so the reason and the history share one.
 */
import type { DeadLetter, Message } from "../message.ts";
import type { SqsMessage } from "./sqs-client.ts";

/** The attribute that a dead letter has beside its own. */
const ATTRIBUTE = "redrive";

/** The most attributes of a message. */
const MAX_ATTRIBUTES = 10;

export function deadLetterInput(
  queueUrl: string,
  { id, body }: Message<SqsMessage>,
  { reason, state }: DeadLetter,
): object {
  const { Body: text = "", MessageAttributes: own = {}, Attributes: attributes = {} } = body;
  const note = { DataType: "String", StringValue: JSON.stringify({ id, reason, ...state }) };
  const names = Object.keys(own).filter((name) => name !== ATTRIBUTE);
  const fits = names.length < MAX_ATTRIBUTES;
  const isFifo = queueUrl.endsWith(".fifo");
  return {
    QueueUrl: queueUrl,
    MessageBody: text,
    MessageAttributes: fits ? { ...own, [ATTRIBUTE]: note } : own,
    ...(isFifo && {
      MessageGroupId: attributes["MessageGroupId"] ?? id,
      MessageDeduplicationId: id,
    }),
  };
}
