/**
 * Shared by the tests of stores: tasks with every field filled, and batches that are mostly empty.
 */

import {
  type Batch,
  type ClaimRequest,
  type Create,
  EMPTY_BATCH,
  type Settle,
  type StartedTask,
} from "../model/batch.ts";
import type { StoredDocument } from "../model/document-table.ts";
import type { LaneDue } from "../model/lane-due.ts";
import type { DestinationReport, NodeReport } from "../model/node-report.ts";
import type { Store } from "../model/store.ts";
import { PRESET_VERSION } from "../model/store.ts";
import { type AttemptLog, type Lane, type NewTask, taskIdPrefix } from "../model/task.ts";

export const T0 = 1_800_000_000_000;
export const TENANT = "acme";
export const DESTINATION = "https://example.com";

let lastId = 0;

/** Ids that sort by age, as UUIDv7 does. */
export function nextTaskId(createdAt: number = T0): string {
  return `${taskIdPrefix(createdAt)}-7000-8000-${String(++lastId).padStart(12, "0")}`;
}

export function newTask(fields: Partial<NewTask> = {}): NewTask {
  return {
    taskId: nextTaskId(fields.createdAt),
    tenantId: TENANT,
    idempotencyKey: null,
    destination: DESTINATION,
    targetUrl: "https://example.com/hook",
    method: "POST",
    headers: { "content-type": "application/json" },
    body: new TextEncoder().encode("{}"),
    bodyRef: null,
    policyId: "background",
    policyVersion: PRESET_VERSION,
    idempotent: true,
    deadlineAt: null,
    createdAt: T0,
    scheduledAt: T0,
    labels: {},
    callbackUrl: null,
    redrivenFrom: null,
    ...fields,
  };
}

/** A task under the first version of the policy `background`, which the test registers. */
export function pinnedTask(fields: Partial<NewTask> = {}): NewTask {
  return newTask({ policyVersion: 1, ...fields });
}

/** All documents of a kind. */
export async function documentsOf(
  { documents }: Store,
  kind: string,
): Promise<readonly StoredDocument[]> {
  return (await documents.list(kind, { limit: 10_000 })).documents;
}

/** All lanes with waiting tasks. */
export async function dueLanes(store: Store): Promise<readonly LaneDue[]> {
  const query = { from: 0, before: Number.MAX_SAFE_INTEGER, limit: 10_000 };
  return (await store.dueLanes({ partitions: partitionsOf(store), ...query })).lanes;
}

/** All partitions of a store. The tasks of `newTask` are in the first one. */
export function partitionsOf({ partitions }: Store): readonly number[] {
  return Array.from({ length: partitions }, (_, partition) => partition);
}

let rounds = 0;

/** A lease of an hour. A lease of 0 ms has ended when the call returns. */
export function report(nodeId: string, fields: Partial<NodeReport> = {}): NodeReport {
  return {
    nodeId,
    round: ++rounds,
    now: T0,
    leaseMs: 3_600_000,
    isLeaving: false,
    takesAll: false,
    destinations: [],
    ...fields,
  };
}

/** A report of the usual destination without limits. */
export function destinationReport(fields: Partial<DestinationReport> = {}): DestinationReport {
  return {
    tenantId: TENANT,
    name: DESTINATION,
    version: 0,
    calls: 0,
    failures: 0,
    slowCalls: 0,
    demand: 1,
    slots: null,
    retrySlots: null,
    rate: null,
    retryRate: null,
    ...fields,
  };
}

export function batch(parts: Partial<Batch> = {}): Batch {
  return {
    now: T0,
    nodeId: "node-1",
    ...EMPTY_BATCH,
    ...parts,
  };
}

export function create(fields: Partial<NewTask> = {}, rest: Partial<Create> = {}): Create {
  return { task: newTask(fields), fingerprint: null, claimVersion: null, ...rest };
}

export function attemptLog(fields: Partial<AttemptLog> = {}): AttemptLog {
  return {
    attemptNumber: 1,
    startedAt: T0,
    durationMs: 12,
    phases: { dnsMs: 1, connectMs: 2, tlsMs: null, firstByteMs: 9 },
    outcome: "status",
    responseStatus: 503,
    errorClass: null,
    errorMessage: "answered 503",
    responseHeaders: { "retry-after": "1" },
    responseBody: new Uint8Array([0, 255, 10]),
    nextDelayMs: 500,
    delaySource: "policy",
    waits: [
      { cause: "circuit-open", sinceAt: T0 - 900, durationMs: 700 },
      { cause: "late", sinceAt: T0 - 200, durationMs: 200 },
    ],
    ...fields,
  };
}

/** Settles a claim as failed, to be retried half a second later. */
export function settle(claim: StartedTask, fields: Partial<Settle> = {}): Settle {
  return {
    tenantId: claim.tenantId,
    taskId: claim.taskId,
    ref: claim.ref,
    claimEpoch: claim.claimEpoch,
    claimedBy: claim.claimedBy,
    status: "PENDING",
    reason: null,
    lane: "retry",
    nextAttemptAt: T0 + 500,
    lastDelayMs: 500,
    abandonedCount: 0,
    attempt: attemptLog({ attemptNumber: claim.attemptNumber }),
    ...fields,
  };
}

/** Requests at most ten due tasks of a lane of the usual destination. */
export function claimOf(lane: Lane, fields: Partial<ClaimRequest> = {}): ClaimRequest {
  const place = { tenantId: TENANT, destination: DESTINATION, lane, partitions: [0] };
  return { ...place, limit: 10, aheadMs: 0, aheadLimit: 0, version: 0, ...fields };
}

/** Claims what is due in the first lane of the usual destination. */
export async function claimFirst(
  store: Store,
  limit = 10,
  now = T0,
): Promise<readonly StartedTask[]> {
  const { claims } = await store.commit(batch({ now, claims: [claimOf("first", { limit })] }));
  return claims[0]?.tasks ?? [];
}
