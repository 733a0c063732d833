/**
 * New tasks: the new tasks of a batch as arrays, in the order of `schema/batch-cells.ts`. The destinations
 * are numbered, so that the server looks up each one once.
 */
import { partitionOf } from "../../../model/partition.ts";
import type { NewTask } from "../../../model/task.ts";
import { byteaArray, int8Array, textArray } from "../connection/binary-array.ts";
import type { Param } from "../connection/cells.ts";
import { storedJson } from "../connection/stored-text.ts";
import { payloadOf } from "../rows/task-rows.ts";

interface Rest {
  readonly claimVersion?: number | null;
  readonly fingerprint?: string | null;
  readonly wave?: number;
}

export class NewTasks {
  readonly #partitions: number;
  /** Tenant and name of each destination. */
  readonly names: string[] = [];
  readonly #places = new Map<string, number>();
  readonly numbers: (number | null)[] = [];
  readonly texts: (string | null)[] = [];
  readonly bodies: (Uint8Array | null)[] = [];

  constructor(partitions: number) {
    this.#partitions = partitions;
  }

  add(task: NewTask, { claimVersion = null, fingerprint = null, wave = 0 }: Rest = {}): void {
    const labels = Object.entries(task.labels);
    this.numbers.push(
      this.#placeOf(task.tenantId, task.destination),
      task.policyVersion,
      task.createdAt,
      task.scheduledAt,
      claimVersion,
      partitionOf(task.taskId, this.#partitions),
      wave,
    );
    this.texts.push(
      task.taskId,
      task.idempotencyKey,
      fingerprint,
      task.policyId,
      task.redrivenFrom,
      labels.length === 0 ? null : storedJson(labels),
      payloadOf(task),
    );
    this.bodies.push(task.body);
  }

  /** From 1, as in an array of the server. */
  #placeOf(tenantId: string, destination: string): number {
    const key = `${tenantId}\n${destination}`;
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    const place = this.names.push(tenantId, destination) / 2;
    this.#places.set(key, place);
    return place;
  }

  /** Null: there are none. */
  params(): readonly Param[] {
    if (this.bodies.length === 0) return [null, null, null, null];
    return [
      textArray(this.names),
      int8Array(this.numbers),
      textArray(this.texts),
      byteaArray(this.bodies),
    ];
  }
}
