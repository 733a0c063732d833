/**
 * Document reports: publishes an event for each stored document that this version cannot read, or
 * reads without some of its fields. Each one is reported once, and listed until it is readable.
 */
import type { Reading } from "../../model/stored-documents.ts";
import type { EngineTime } from "../../time/engine-time.ts";
import type { WritableEventBody } from "./engine-event.ts";
import type { EngineEvents } from "./engine-events.ts";

/** A full list is cleared, and its documents are reported again when they are read again. */
const MAX_REPORTS = 1000;

export interface DocumentName {
  readonly kind: "policy" | "destination" | "redrive";
  readonly tenantId: string;
  readonly name: string;
  /** Of a policy. */
  readonly version?: number;
}

export interface UnreadableDocument extends DocumentName {
  readonly reason: string;
}

export class DocumentReports {
  readonly #time: EngineTime;
  readonly #events: EngineEvents;
  readonly #unreadable = new Map<string, UnreadableDocument>();
  readonly #ignored = new Map<string, string>();

  constructor(time: EngineTime, events: EngineEvents) {
    this.#time = time;
    this.#events = events;
  }

  /** The documents that could not be read when they were last used. At most 1000. */
  unreadable(): readonly UnreadableDocument[] {
    return [...this.#unreadable.values()];
  }

  record(document: DocumentName, reading: Reading<unknown>): void {
    const key = keyOf(document);
    if (reading.kind === "unreadable") this.#recordUnreadable(key, document, reading.reason);
    else {
      this.#unreadable.delete(key);
      if (reading.ignored.length > 0) this.#recordIgnored(key, document, reading.ignored);
    }
  }

  #recordUnreadable(key: string, document: DocumentName, reason: string): void {
    if (this.#unreadable.get(key)?.reason === reason) return;
    if (this.#unreadable.size >= MAX_REPORTS) this.#unreadable.clear();
    this.#unreadable.set(key, { ...document, reason });
    this.#emit("document.unreadable", document, `${titleOf(document)} cannot be read: ${reason}`);
  }

  #recordIgnored(key: string, document: DocumentName, fields: readonly string[]): void {
    const names = fields.join(", ");
    if (this.#ignored.get(key) === names) return;
    if (this.#ignored.size >= MAX_REPORTS) this.#ignored.clear();
    this.#ignored.set(key, names);
    this.#emit("document.fields-ignored", document, `${titleOf(document)}: ${names}`);
  }

  #emit(type: WritableEventBody["type"], document: DocumentName, reason: string): void {
    const { kind, tenantId, name } = document;
    const event: WritableEventBody = { type, tenantId, reason };
    if (kind === "policy") event.policyId = name;
    if (kind === "destination") event.destination = name;
    this.#events.emit(this.#time.now(), event);
  }
}

function keyOf({ kind, tenantId, name, version = 0 }: DocumentName): string {
  return [kind, tenantId, name, version].join("\n");
}

/** For example: version 2 of policy "x". */
function titleOf({ kind, name, version }: DocumentName): string {
  const title = `${kind} ${JSON.stringify(name)}`;
  return version === undefined ? title : `version ${version} of ${title}`;
}
