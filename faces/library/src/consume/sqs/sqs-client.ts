/**
 * SQS client: what the adapter needs of the caller's `SQS` of `@aws-sdk/client-sqs`. The library does
 * not import it.
 */

export interface SqsMessage {
  readonly MessageId?: string | undefined;
  readonly ReceiptHandle?: string | undefined;
  readonly Body?: string | undefined;
  readonly Attributes?: Readonly<Partial<Record<string, string>>> | undefined;
  readonly MessageAttributes?: Readonly<Record<string, SqsAttribute>> | undefined;
}

export interface SqsAttribute {
  readonly DataType: string | undefined;
  readonly StringValue?: string | undefined;
  readonly BinaryValue?: Uint8Array | undefined;
}

interface BatchResult {
  readonly Failed?: readonly { readonly Id: string | undefined }[] | undefined;
}

export interface SqsClient {
  receiveMessage(
    input: object,
    options?: { abortSignal?: AbortSignal },
  ): Promise<{ readonly Messages?: readonly SqsMessage[] | undefined }>;
  deleteMessageBatch(input: object): Promise<BatchResult>;
  changeMessageVisibility(input: object): Promise<unknown>;
  sendMessage(input: object): Promise<unknown>;
}
