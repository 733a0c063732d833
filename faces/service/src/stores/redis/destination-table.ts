/**
 * Destination table: the rows of destinations, and their versions in every partition. A claim is
 * checked against the version in its own partition, because in a cluster the row is on another server.
 *
 * A write changes the row first and then raises the version in all partitions. It counts as done only
 * after that. So no claim under an older version is made after a write was acknowledged.
 */
import { blankDestination, type DestinationRow } from "../../model/destination-row.ts";
import type { Store } from "../../model/store.ts";
import {
  allDone,
  bytesOf,
  bytesOrNull,
  type Link,
  listOf,
  type Reply,
  textOf,
} from "./connection/link.ts";
import { pack } from "./message-pack.ts";
import { ALL_PARTITIONS, joined, type Keys, packRow, rowOf } from "./rows.ts";
import { DROP_VERSIONS, RAISE_VERSIONS } from "./scripts/partition-scripts.ts";
import { READ_ROWS, WRITE_ROWS } from "./scripts/row-scripts.ts";
import type { Script } from "./scripts/script.ts";

/** A destination, as `tenant\nname`, and the version of its row. */
export type RowVersion = readonly [id: string, version: number];

/** A row, and whether it is stored: a blank one has the version of a destination without a row. */
interface FoundRow {
  readonly row: DestinationRow;
  readonly isStored: boolean;
}

function foundRow(stored: Reply, tenantId: string, name: string): FoundRow {
  if (typeof stored !== "number") return { row: rowOf(bytesOf(stored)), isStored: true };
  return { row: blankDestination(tenantId, name, stored), isStored: false };
}

export class DestinationTable {
  readonly #link: Link;
  readonly #keys: Keys;

  constructor(link: Link, keys: Keys) {
    this.#link = link;
    this.#keys = keys;
  }

  /** Null for each row that was written, otherwise what is stored. Raises no version. */
  async write(rows: readonly DestinationRow[]): Promise<readonly (FoundRow | null)[]> {
    const run = this.#link.run(WRITE_ROWS, [this.#keys.control], rows.map(packRow));
    const [reply = null] = await allDone([run]);
    return listOf(reply).map((stored, index) => {
      const { tenantId, name } = rows[index] as DestinationRow;
      const isWritten = Buffer.isBuffer(stored) && stored.length === 0;
      return isWritten ? null : foundRow(stored, tenantId, name);
    });
  }

  /** The scripts that raise versions in all partitions. */
  raise(versions: readonly RowVersion[]): readonly Promise<Reply>[] {
    return this.#everywhere(RAISE_VERSIONS, versions);
  }

  /** Makes all partitions forget the versions of rows that were removed. */
  async drop(versions: readonly RowVersion[], mayHaveWritten: boolean): Promise<void> {
    await allDone(this.#everywhere(DROP_VERSIONS, versions), mayHaveWritten);
  }

  #everywhere(script: Script, versions: readonly RowVersion[]): readonly Promise<Reply>[] {
    if (versions.length === 0) return [];
    const bases = ALL_PARTITIONS.map((partition) => this.#keys.base(partition));
    const groups = this.#link.isCluster ? bases.map((base) => [base]) : [bases];
    const argument = pack(versions);
    return groups.map((group) => this.#link.run(script, group, [argument]));
  }

  /** Records that all partitions have these versions. If it fails, `renew` raises them once more. */
  recordRaised(versions: readonly RowVersion[]): void {
    if (versions.length === 0) return;
    const members = versions.map(([id, version]) => joined(id, String(version)));
    this.#link.call("zrem", `${this.#keys.control}:ru`, ...members).catch(() => {});
  }

  /** Raises versions whose writer did not finish: it has crashed, or a server did not respond. */
  async raiseLate(texts: readonly Reply[]): Promise<void> {
    const versions = texts.map((text): RowVersion => {
      const [, id = "", version] = /^(.*)\n(\d+)$/su.exec(textOf(text)) ?? [];
      return [id, Number(version)];
    });
    await allDone(this.raise(versions));
    this.recordRaised(versions);
  }

  /** The rows that refused claims. `versions`: what the partitions know. */
  async read(versions: readonly RowVersion[]): Promise<readonly FoundRow[]> {
    const reply = await this.#link.run(READ_ROWS, [this.#keys.control], versions.flat());
    return listOf(reply).map((stored, index) => {
      const [id = ""] = versions[index] ?? [];
      const [tenantId = "", name = ""] = id.split("\n");
      return foundRow(stored, tenantId, name);
    });
  }

  methods(): Pick<Store, "getDestination" | "openCircuits"> {
    const { control } = this.#keys;
    return {
      getDestination: async (tenantId, name) => {
        const stored = await this.#link.call("hget", `${control}:r`, joined(tenantId, name));
        return stored === null ? null : rowOf(bytesOf(stored));
      },
      openCircuits: async (tenantId, limit) => {
        const names = await this.#link.call("zrange", `${control}:ro:${tenantId}`, 0, limit - 1);
        return this.readNames(tenantId, listOf(names).map(textOf));
      },
    };
  }

  /** The rows of destinations that have one. */
  async readNames(tenantId: string, names: readonly string[]): Promise<readonly DestinationRow[]> {
    if (names.length === 0) return [];
    const ids = names.map((name) => joined(tenantId, name));
    const rows = await this.#link.call("hmget", `${this.#keys.control}:r`, ...ids);
    return listOf(rows).flatMap((row) => {
      const bytes = bytesOrNull(row);
      return bytes === null ? [] : [rowOf(bytes)];
    });
  }
}
