/**
 * Stream worker: reads messages as far as the consumer has slots, carries its dispositions out, and
 * repeats what keeps a group healthy: it takes delayed messages that are due, takes over messages of
 * consumers that died, and shows that it works on its own.
 */
import type { Consumer } from "../consumer.ts";
import { LiveList } from "../live-list.ts";
import type { Disposition } from "../message.ts";
import { encodeState } from "../message-state.ts";
import { RepeatingTask } from "../repeating-task.ts";
import { type Worker, WorkerState } from "../worker.ts";
import { AckBatch } from "./ack-batch.ts";
import type { RedisConnection } from "./redis-client.ts";
import type { StreamCommands } from "./stream-commands.ts";
import type { RedisFields, StreamEntry } from "./stream-entry.ts";

export interface StreamWorkerParts {
  readonly consumer: Consumer<RedisFields>;
  readonly connection: RedisConnection;
  readonly commands: StreamCommands;
  readonly startId: string;
  readonly idleMs: number;
  readonly blockMs: number;
  readonly maxDeadLetters: number;
  readonly trims: boolean;
}

/** Messages that another process has delayed are noticed after this time at the latest. */
const DUE_CHECK_MS = 1000;
const TRIM_MS = 60_000;

/** How often a read that does not end is ended again. */
const UNBLOCK_MS = 20;

export class StreamWorker implements Worker {
  readonly #parts: StreamWorkerParts;
  readonly #state: WorkerState;
  readonly #acks: AckBatch;
  readonly #due: RepeatingTask;
  readonly #tasks: readonly RepeatingTask[];

  // Mutable state.
  #blocking: RedisConnection | undefined;
  #blockingId: unknown;
  /** Slots that the current read may fill. */
  #reserved = 0;
  #reading: Promise<void> = Promise.resolve();
  #onRoom: (() => void) | undefined;
  readonly #inFlight = new LiveList<StreamEntry>();
  readonly #cursors: [fresh: string, retried: string] = ["0-0", "0-0"];

  constructor(parts: StreamWorkerParts) {
    this.#parts = parts;
    this.#state = new WorkerState(parts.consumer);
    const { consumer, commands, idleMs, trims } = parts;
    const { clock } = consumer;
    const onError = (error: unknown) => void this.#state.fail(error);
    const repeat = (everyMs: number, run: () => Promise<number | undefined>) =>
      new RepeatingTask({ clock, everyMs, run, onError });
    this.#acks = new AckBatch({
      clock,
      ack: (isRetry, ids) => commands.ack(isRetry, ids),
      onError: (error) => this.#state.fail(error),
    });
    this.#due = repeat(DUE_CHECK_MS, () => this.#takeDue());
    this.#tasks = [
      this.#due,
      repeat(Math.floor(idleMs / 2), () => this.#claimIdle()),
      repeat(Math.floor(idleMs / 3), () => this.#renew()),
      ...(trims ? [repeat(TRIM_MS, async () => void (await commands.trim()))] : []),
    ];
  }

  async start(): Promise<void> {
    const { commands, connection, startId } = this.#parts;
    await commands.createGroups(startId);
    this.#blocking = await connection.duplicate();
    for (const task of this.#tasks) task.start();
    this.#reading = this.#read(this.#blocking);
    this.#due.runWithin(0);
    // After a crash of the whole fleet, nobody else takes over what it had.
    await this.#claimIdle();
  }

  async stop(drainMs?: number): Promise<void> {
    const { consumer, commands } = this.#parts;
    const isFirst = !this.#state.isStopping;
    this.#state.stop();
    this.#onRoom?.();
    if (isFirst) await this.#endRead();
    await this.#reading;
    await consumer.stop(drainMs);
    await Promise.all([this.#state.idle(), ...this.#tasks.map((task) => task.stop())]);
    await this.#acks.flush();
    if (!isFirst) return;
    await commands.leave().catch(() => undefined);
    this.#blocking?.close();
  }

  /**
   * Ends the read that waits for messages; it would wait for `blockMs`. A read that Redis has not
   * received yet is not ended by one command, so the command is repeated.
   */
  async #endRead(): Promise<void> {
    const { connection, consumer } = this.#parts;
    let isReading = true;
    const ended = this.#reading.then(() => {
      isReading = false;
    });
    while (isReading && this.#blockingId !== undefined) {
      await connection.send("CLIENT", "UNBLOCK", String(this.#blockingId)).catch(() => undefined);
      await Promise.race([ended, consumer.clock.sleep(UNBLOCK_MS)]);
    }
  }

  /** Reads new messages until the worker stops. */
  async #read(blocking: RedisConnection): Promise<void> {
    const { commands, startId, blockMs } = this.#parts;
    let mustPrepare = true;
    while (!this.#state.isStopping) {
      this.#reserved = this.#roomForRead();
      if (this.#reserved === 0) {
        await this.#room();
        continue;
      }
      try {
        if (mustPrepare) {
          await commands.createGroups(startId);
          this.#blockingId = await blocking.send("CLIENT", "ID").catch(() => undefined);
          mustPrepare = false;
        }
        const entries = await commands.read(blocking, this.#reserved, blockMs);
        this.#state.recover();
        for (const entry of entries) void this.#handle(entry);
      } catch (error) {
        mustPrepare = true;
        if (!this.#state.isStopping) await this.#state.pause(this.#state.fail(error));
      } finally {
        this.#reserved = 0;
      }
    }
  }

  /** Resolves when a message has ended, at the end of its turn: others end with it. */
  #room(): Promise<void> {
    return new Promise((resolve) => {
      this.#onRoom = resolve;
    });
  }

  #wake(): void {
    const { clock } = this.#parts.consumer;
    const resolve = this.#onRoom;
    this.#onRoom = undefined;
    if (resolve !== undefined) clock.endOfTurn(resolve);
  }

  /** One slot stays free for messages that come back, unless there is only one. */
  #roomForRead(): number {
    const { free, concurrency } = this.#parts.consumer;
    return concurrency === 1 ? free : Math.max(0, free - 1);
  }

  /** Messages that may be fetched beside the current read. At least one, if any slot is free. */
  #roomBesideRead(): number {
    const { free } = this.#parts.consumer;
    return free === 0 ? 0 : Math.max(1, free - this.#reserved);
  }

  async #takeDue(): Promise<number | undefined> {
    const { commands, consumer } = this.#parts;
    const count = this.#roomBesideRead();
    if (count === 0) return undefined;
    const now = consumer.clock.now();
    const { entries, nextAt } = await commands.takeDue(now, count);
    for (const entry of entries) void this.#handle(entry);
    if (entries.length === count) return 0;
    return nextAt === undefined ? undefined : Math.min(DUE_CHECK_MS, Math.max(0, nextAt - now));
  }

  async #claimIdle(): Promise<undefined> {
    const { commands, idleMs } = this.#parts;
    for (const isRetry of [false, true]) {
      const index = isRetry ? 1 : 0;
      const count = this.#roomBesideRead();
      if (count === 0) return;
      const place = { cursor: this.#cursors[index], count, idleMs };
      const { cursor, entries } = await commands.claimIdle(isRetry, place);
      this.#cursors[index] = cursor;
      for (const entry of entries) void this.#handle(entry);
    }
  }

  async #renew(): Promise<undefined> {
    const { commands } = this.#parts;
    for (const isRetry of [false, true]) {
      const entries = this.#inFlight.all().filter((entry) => entry.isRetry === isRetry);
      const ids = entries.map(({ entryId }) => entryId);
      if (ids.length > 0) await commands.renew(isRetry, ids);
    }
  }

  /** Never rejects. */
  async #handle(entry: StreamEntry): Promise<void> {
    this.#state.begin();
    this.#inFlight.add(entry);
    const disposition = await this.#parts.consumer.handle(entry.message);
    if (disposition.kind === "ack") this.#acks.add(entry);
    else await this.#move(entry, disposition);
    this.#inFlight.remove(entry);
    this.#wake();
    this.#state.end();
  }

  /** Tries until Redis has moved the message. Until then it is pending, so a crash does not lose it. */
  async #move(entry: StreamEntry, disposition: Disposition): Promise<void> {
    const { clock } = this.#parts.consumer;
    const dueAt = "delayMs" in disposition ? clock.now() + disposition.delayMs : 0;
    for (;;) {
      try {
        await this.#moveOnce(entry, disposition, dueAt);
        return;
      } catch (error) {
        const delayMs = this.#state.fail(error);
        // The message is delivered again after `idleMs`.
        if (this.#state.isStopping) return;
        await this.#state.pause(delayMs);
      }
    }
  }

  async #moveOnce(entry: StreamEntry, disposition: Disposition, dueAt: number): Promise<void> {
    const { commands, maxDeadLetters, consumer } = this.#parts;
    if (disposition.kind === "ack") return;
    const state = encodeState(disposition.state);
    if (disposition.kind === "dead-letter") {
      await commands.deadLetter(entry, maxDeadLetters, state, disposition.reason);
      return;
    }
    await commands.delay(entry, dueAt, state);
    this.#due.runWithin(dueAt - consumer.clock.now());
  }
}
