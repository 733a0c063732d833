/**
 * RabbitMQ worker: receives messages over one session after another, and carries the consumer's
 * dispositions out. A copy of a message is stored in its next queue before the message is acknowledged,
 * so a crash in between doubles the message and never loses it.
 */
import { systemId } from "@redrive/core";
import type { Consumer } from "../consumer.ts";
import { tierFor } from "../delay-tiers.ts";
import type { Disposition, Message } from "../message.ts";
import { type Worker, WorkerState } from "../worker.ts";
import type { AmqpConnection, AmqpMessage } from "./amqp-client.ts";
import { copyProperties, messageOf, type RabbitBody } from "./amqp-delivery.ts";
import type { OpenDelivery } from "./delivery-acks.ts";
import { RabbitSession, Unroutable } from "./rabbit-session.ts";

export interface RabbitWorkerParts {
  readonly consumer: Consumer<RabbitBody>;
  readonly connect: () => Promise<AmqpConnection>;
  readonly queue: string;
  readonly prefetch: number;
  readonly declarations: ReadonlyMap<string, object>;
  readonly tiersMs: readonly number[];
  readonly delayQueueOf: (tierMs: number) => string;
  readonly delayQueueOptions: (tierMs: number) => object;
  readonly deadLetter: { readonly exchange: string; readonly routingKey: string | undefined };
  readonly idOf: (message: AmqpMessage) => string | undefined;
}

/** A delivery: the message, and what is needed to answer it. */
interface Delivery {
  readonly session: RabbitSession;
  readonly open: OpenDelivery;
  readonly message: Message<RabbitBody>;
}

export class RabbitWorker implements Worker {
  readonly #parts: RabbitWorkerParts;
  readonly #state: WorkerState;

  // Mutable state.
  #session: RabbitSession | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(parts: RabbitWorkerParts) {
    this.#parts = parts;
    this.#state = new WorkerState(parts.consumer);
  }

  async start(): Promise<void> {
    this.#session = await this.#open();
    this.#running = this.#reopen(this.#session);
  }

  async stop(drainMs?: number): Promise<void> {
    const isFirst = !this.#state.isStopping;
    this.#state.stop();
    if (isFirst) await this.#session?.cancel();
    await this.#parts.consumer.stop(drainMs);
    await this.#state.idle();
    await this.#session?.close();
    await this.#running;
  }

  async #open(): Promise<RabbitSession> {
    const { connect, queue, prefetch, declarations, consumer } = this.#parts;
    return RabbitSession.open(await connect(), {
      queue,
      prefetch,
      declarations,
      endOfTurn: (fn) => consumer.clock.endOfTurn(fn),
      onMessage: (open, session) => this.#receive(open, session),
    });
  }

  /** Replaces a session that was closed, until the worker stops. */
  async #reopen(first: RabbitSession): Promise<void> {
    let session = first;
    for (;;) {
      let cause = await session.closed;
      for (;;) {
        if (this.#state.isStopping) return;
        await this.#state.pause(this.#state.fail(cause));
        if (this.#state.isStopping) return;
        try {
          session = await this.#open();
          break;
        } catch (error) {
          cause = error;
        }
      }
      this.#session = session;
      this.#state.recover();
      if (this.#state.isStopping) await session.close();
    }
  }

  #receive(open: OpenDelivery, session: RabbitSession): void {
    const id = this.#parts.idOf(open.message) ?? systemId();
    void this.#handle({ session, open, message: messageOf(open.message, id) });
  }

  /** Never rejects. */
  async #handle(delivery: Delivery): Promise<void> {
    const { session, open, message } = delivery;
    this.#state.begin();
    const disposition = await this.#parts.consumer.handle(message);
    if (disposition.kind !== "ack") await this.#copy(delivery, disposition);
    session.ack(open);
    this.#state.end();
  }

  /** Tries until a copy is stored, or the session is closed: then the broker delivers it again. */
  async #copy(
    delivery: Delivery,
    disposition: Exclude<Disposition, { kind: "ack" }>,
  ): Promise<void> {
    const { session } = delivery;
    for (;;) {
      try {
        if (disposition.kind === "dead-letter") await this.#deadLetter(delivery, disposition);
        else await this.#delay(delivery, disposition);
        return;
      } catch (error) {
        if (!session.isOpen) return;
        const delayMs = this.#state.fail(error);
        if (this.#state.isStopping) return await session.close(error);
        await this.#state.pause(delayMs);
      }
    }
  }

  async #delay(
    { session, message }: Delivery,
    { delayMs, state }: Extract<Disposition, { delayMs: number }>,
  ): Promise<void> {
    const { tiersMs, delayQueueOf, delayQueueOptions } = this.#parts;
    const tierMs = tierFor(tiersMs, delayMs);
    const queue = delayQueueOf(tierMs);
    await session.declare(queue, delayQueueOptions(tierMs));
    try {
      await session.publish("", queue, message.body.content, copyProperties(message, state));
    } catch (error) {
      // Somebody has deleted the queue.
      if (error instanceof Unroutable) session.undeclare(queue);
      throw error;
    }
    this.#state.recover();
  }

  async #deadLetter(
    { session, message }: Delivery,
    { reason, state }: Extract<Disposition, { kind: "dead-letter" }>,
  ): Promise<void> {
    const { exchange, routingKey = message.body.routingKey } = this.#parts.deadLetter;
    const properties = copyProperties(message, state, reason);
    await session.publish(exchange, routingKey, message.body.content, properties);
    this.#state.recover();
  }
}
