/** Tables: what the memory store holds besides documents and nodes, and who writes to it. */
import type { DestinationRow } from "../../model/destination-row.ts";
import type { PolicyRow } from "../../model/store.ts";
import type { Rows } from "./rows.ts";

/** The node that writes, and the time. */
export interface Writer {
  readonly now: number;
  readonly nodeId: string;
  /** Destinations whose write in this batch was rejected. */
  readonly refused: Set<string>;
}

interface KeyEntry {
  readonly taskId: string;
  readonly fingerprint: string;
  /** Infinity until the task ends. */
  expiresAt: number;
}

export interface Tables {
  readonly rows: Rows;
  /** By tenant, policy and version. */
  readonly policies: Map<string, PolicyRow>;
  readonly keys: Map<string, KeyEntry>;
  readonly destinations: Map<string, DestinationRow>;
}
