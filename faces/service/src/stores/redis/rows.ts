/**
 * Rows: the names of keys in Redis, and the values of tasks, attempts and destinations in them.
 */
import type { StopReason } from "@redrive/core";
import { type StartedTask, startedTask } from "../../model/batch.ts";
import type { DestinationRow } from "../../model/destination-row.ts";
import {
  type AttemptLog,
  type AttemptPhases,
  type Headers,
  LANES,
  type NewTask,
  type RetryTask,
  readWaits,
  TASK_STATUSES,
  type TaskStatus,
  waitsText,
} from "../../model/task.ts";
import type { TaskFilter } from "../../model/task-query.ts";
import { type Packable, pack, type Unpacked, unpackList } from "./message-pack.ts";

// Keys: the names of all keys in Redis. Every key of a partition has the hash tag of the partition, so
// that a script can change them together, also in a cluster. Everything that belongs to no partition
// (rows, nodes, shares, policies, documents) has one other tag. See docs/decisions/0027. Keys of a
// partition are its base and a suffix (`scripts/task-script.ts` lists them).

/** A divisor of 256. A cluster spreads its load over its masters by partitions. */
export const PARTITIONS = 64;

export const ALL_PARTITIONS: readonly number[] = Array.from({ length: PARTITIONS }, (_, at) => at);

/** The numbers of layouts of the keys. A store with another one is refused. */
export const LAYOUT = 2;

/**
 * The ends of the hash tags. Slot 256 n + 128 of a cluster belongs to partition n, so that the partitions
 * are divided evenly among masters that divide the slots evenly.
 */
const TAG_ENDS = `
bedy bhhd bggk bbbn bqpm bewx bbqo bgtj aepp aqwe aodd abhy bmrm bhwh asyh aowe
blyf bpwk bghw bbmr bdqm bath bwpo bcwz bekd bhgy bghv bbms aded aiiy bcmb bfhg
bguy bjyd aqwd aepq bjje bgfx birl blwi bfou bcjp bdlg baib bcyq bnul bazc ehcu
ancf akfc babx blne actq afqt buvl baqy abnx aobe aavq adst abok agjn ahea atkl
`
  .trim()
  .split(/\s/);

/** A pattern of the hash tags of all partitions. */
export const ANY_PARTITION = "{p*}";

export interface Keys {
  /** The begin of every key of a partition. */
  base(partition: number): string;
  /** The begin of every key that belongs to no partition. */
  readonly control: string;
  /** The channel of the wake-ups of a partition. */
  channelOf(partition: number): string;
  /** The channel that says that the nodes have changed. */
  readonly nodesChannel: string;
}

export function keysOf(prefix: string): Keys {
  const bases = ALL_PARTITIONS.map(
    (partition) => `${prefix}:{p${partition}.${TAG_ENDS[partition]}}`,
  );
  return {
    base: (partition) => bases[partition] as string,
    control: `${prefix}:{control}`,
    channelOf: (partition) => `${prefix}:wake:${partition}`,
    nodesChannel: `${prefix}:nodes`,
  };
}

/** Joins parts with a character that no tenant, destination, id and key contains. */
export function joined(...parts: readonly string[]): string {
  return parts.join("\n");
}

// Task codec: the three values that Redis stores of a task. The head never changes and is read by
// clients only. The state is read and changed by scripts, too. The body is raw bytes.

/** The positions of the state, from 0. Scripts count from 1 (see `scripts/task-script.ts`). */
const AT = {
  status: 0,
  lane: 1,
  attemptNumber: 2,
  nextAttemptAt: 3,
  claimEpoch: 4,
  claimedBy: 5,
  claimedAt: 6,
  lastDelayMs: 7,
  abandonedCount: 8,
  cancelRequestedAt: 9,
  lastStatus: 10,
  lastError: 11,
  reason: 12,
  redrivenTo: 13,
  finishedAt: 14,
  sequence: 15,
  destination: 16,
  policyId: 17,
  idempotencyKey: 18,
} as const;

export type StateCells = readonly Unpacked[];

/** False if the state alone shows that the task does not match. */
export function mayMatch(cells: StateCells, filter: TaskFilter): boolean {
  const { status, destination, policyId, idempotencyKey, reason, lastStatus } = filter;
  const differs = (wanted: Unpacked | undefined, at: number) =>
    wanted !== undefined && wanted !== cells[at];
  return !(
    (status !== undefined && statusNumber(status) !== cells[AT.status]) ||
    differs(destination, AT.destination) ||
    differs(policyId, AT.policyId) ||
    differs(idempotencyKey, AT.idempotencyKey) ||
    differs(reason, AT.reason) ||
    differs(lastStatus, AT.lastStatus)
  );
}

/** The node that holds the claim of a task in flight. */
export function claimantOf(cells: StateCells): string | null {
  return cells[AT.claimedBy] as string | null;
}

export function statusNumber(status: TaskStatus): number {
  return TASK_STATUSES.indexOf(status);
}

export function statusOf(number: Unpacked | undefined): TaskStatus {
  return TASK_STATUSES[number as number] as TaskStatus;
}

export function packHead(task: NewTask): Buffer {
  return pack([
    task.taskId,
    task.tenantId,
    task.idempotencyKey,
    task.destination,
    task.targetUrl,
    task.method,
    JSON.stringify(task.headers),
    task.bodyRef,
    task.policyId,
    task.policyVersion,
    task.idempotent ? 1 : 0,
    task.deadlineAt,
    task.createdAt,
    task.scheduledAt,
    JSON.stringify(task.labels),
    task.callbackUrl,
    task.redrivenFrom,
  ]);
}

/** The part of a task that never changes. */
export function newTaskOf(head: Buffer, body: Buffer | null): NewTask {
  const cells = unpackList(head);
  return {
    taskId: cells[0] as string,
    tenantId: cells[1] as string,
    idempotencyKey: cells[2] as string | null,
    destination: cells[3] as string,
    targetUrl: cells[4] as string,
    method: cells[5] as string,
    headers: JSON.parse(cells[6] as string) as Headers,
    // A copy: the reply of the server is a part of a larger buffer.
    body: body === null ? null : new Uint8Array(body),
    bodyRef: cells[7] as string | null,
    policyId: cells[8] as string,
    policyVersion: cells[9] as number,
    idempotent: cells[10] === 1,
    deadlineAt: cells[11] as number | null,
    createdAt: cells[12] as number,
    scheduledAt: cells[13] as number,
    labels: JSON.parse(cells[14] as string) as Headers,
    callbackUrl: cells[15] as string | null,
    redrivenFrom: cells[16] as string | null,
  };
}

/** The state of a task. Scripts set its sequence number. */
export function stateOf(task: RetryTask): readonly Packable[] {
  return [
    statusNumber(task.status),
    LANES.indexOf(task.lane),
    task.attemptNumber,
    task.nextAttemptAt,
    task.claimEpoch,
    task.claimedBy,
    task.claimedAt,
    task.lastDelayMs,
    task.abandonedCount,
    task.cancelRequestedAt,
    task.lastStatus,
    task.lastError,
    task.reason,
    task.redrivenTo,
    task.finishedAt,
    0,
    task.destination,
    task.policyId,
    task.idempotencyKey,
  ];
}

export function stateCells(state: Buffer): StateCells {
  return unpackList(state);
}

/** The claim that a stored task in flight is. */
export function startedOf(task: NewTask, cells: StateCells): StartedTask {
  return startedTask(task, cells[AT.sequence] as number, {
    attemptNumber: cells[AT.attemptNumber] as number,
    claimEpoch: cells[AT.claimEpoch] as number,
    claimedBy: cells[AT.claimedBy] as string | null,
    claimedAt: cells[AT.claimedAt] as number,
    nextAttemptAt: cells[AT.nextAttemptAt] as number,
    lastDelayMs: cells[AT.lastDelayMs] as number,
    abandonedCount: cells[AT.abandonedCount] as number,
    cancelRequestedAt: cells[AT.cancelRequestedAt] as number | null,
    lastStatus: cells[AT.lastStatus] as number | null,
  });
}

export function taskOf(task: NewTask, cells: StateCells): RetryTask {
  return {
    ...task,
    status: statusOf(cells[AT.status]),
    reason: cells[AT.reason] as StopReason | null,
    lane: LANES[cells[AT.lane] as number] as RetryTask["lane"],
    attemptNumber: cells[AT.attemptNumber] as number,
    nextAttemptAt: cells[AT.nextAttemptAt] as number,
    claimEpoch: cells[AT.claimEpoch] as number,
    claimedBy: cells[AT.claimedBy] as string | null,
    claimedAt: cells[AT.claimedAt] as number | null,
    lastDelayMs: cells[AT.lastDelayMs] as number,
    abandonedCount: cells[AT.abandonedCount] as number,
    cancelRequestedAt: cells[AT.cancelRequestedAt] as number | null,
    lastStatus: cells[AT.lastStatus] as number | null,
    lastError: cells[AT.lastError] as string | null,
    redrivenTo: cells[AT.redrivenTo] as string | null,
    finishedAt: cells[AT.finishedAt] as number | null,
  };
}

// Attempt codec: the stored form of the log of one attempt: the number of bytes of its fields, the
// fields, and the body of the response. Only clients read it.

const SIZE_BYTES = 4;

export function packAttempt(log: AttemptLog): Buffer {
  const { phases, responseHeaders, responseBody } = log;
  const fields = pack([
    log.attemptNumber,
    log.startedAt,
    log.durationMs,
    phases && [phases.dnsMs, phases.connectMs, phases.tlsMs, phases.firstByteMs],
    log.outcome,
    log.responseStatus,
    log.errorClass,
    log.errorMessage,
    responseHeaders && JSON.stringify(responseHeaders),
    responseBody === null ? 0 : 1,
    log.nextDelayMs,
    log.delaySource,
    waitsText(log.waits),
  ]);
  const size = Buffer.alloc(SIZE_BYTES);
  size.writeUInt32BE(fields.length);
  return Buffer.concat([size, fields, responseBody ?? new Uint8Array()]);
}

export function attemptOf(stored: Buffer): AttemptLog {
  const bodyAt = SIZE_BYTES + stored.readUInt32BE(0);
  const cells = unpackList(stored.subarray(SIZE_BYTES, bodyAt));
  const headers = cells[8] as string | null;
  return {
    attemptNumber: cells[0] as number,
    startedAt: cells[1] as number,
    durationMs: cells[2] as number,
    phases: phasesOf(cells[3] as readonly Unpacked[] | null),
    outcome: cells[4] as string,
    responseStatus: cells[5] as number | null,
    errorClass: cells[6] as string | null,
    errorMessage: cells[7] as string | null,
    responseHeaders: headers === null ? null : (JSON.parse(headers) as Headers),
    responseBody: cells[9] === 1 ? new Uint8Array(stored.subarray(bodyAt)) : null,
    nextDelayMs: cells[10] as number | null,
    delaySource: cells[11] as string | null,
    // Older versions wrote none.
    waits: readWaits(cells[12] as string | null | undefined),
  };
}

function phasesOf(cells: readonly Unpacked[] | null): AttemptPhases | null {
  if (cells === null) return null;
  const [dnsMs, connectMs, tlsMs, firstByteMs] = cells as (number | null)[];
  return {
    dnsMs: dnsMs ?? null,
    connectMs: connectMs ?? null,
    tlsMs: tlsMs ?? null,
    firstByteMs: firstByteMs ?? null,
  };
}

// Destination codec: the stored form of a destination row. Scripts read its first three cells.

/** The version comes first, then what scripts keep lists of: open circuits and pauses. */
function rowCells(row: DestinationRow): readonly Packable[] {
  return [
    row.version,
    row.breakerState,
    row.pausedAt,
    row.tenantId,
    row.name,
    row.document,
    row.gateUntil,
    row.openUntil,
    row.openCount,
  ];
}

export function packRow(row: DestinationRow): Buffer {
  return pack(rowCells(row));
}

export function rowOf(stored: Buffer): DestinationRow {
  const cells = unpackList(stored);
  return {
    tenantId: cells[3] as string,
    name: cells[4] as string,
    version: cells[0] as number,
    document: cells[5] as string | null,
    pausedAt: cells[2] as number | null,
    gateUntil: cells[6] as number,
    breakerState: cells[1] as DestinationRow["breakerState"],
    openUntil: cells[7] as number,
    openCount: cells[8] as number,
  };
}
