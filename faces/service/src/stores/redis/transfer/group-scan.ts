/**
 * Group scan: finds the tenants of a Redis store, or the kinds of its documents. Both are only in the
 * names of keys, so all keys are examined, step by step.
 */
import type { Redis } from "ioredis";
import type { Link } from "../connection/link.ts";

/** Keys that one step examines. It takes a few milliseconds, for which others wait. */
const STEP_KEYS = 10_000;

/** Steps of one call, on each server. */
const MAX_STEPS = 100;

export class GroupScan {
  /** The position on each server; undefined once all keys were examined. */
  readonly #positions: Map<Redis, string | undefined>;
  readonly #prefix: string;
  readonly #names = new Set<string>();
  #sorted: readonly string[] | undefined;

  /** `prefix`: the begin of the keys, in which `*` stands for anything; the rest is the name. */
  constructor(link: Link, prefix: string) {
    this.#prefix = prefix;
    this.#positions = new Map(link.masters().map((master) => [master, "0"]));
  }

  /** Examines some keys. Undefined: call it again. Otherwise the names, in the order of their bytes. */
  async advance(): Promise<readonly string[] | undefined> {
    if (this.#sorted !== undefined) return this.#sorted;
    await Promise.all([...this.#positions.keys()].map((master) => this.#scan(master)));
    if ([...this.#positions.values()].some((position) => position !== undefined)) return undefined;
    const names = [...this.#names].map((name) => Buffer.from(name, "latin1"));
    this.#sorted = names.sort(Buffer.compare).map(String);
    return this.#sorted;
  }

  async #scan(master: Redis): Promise<void> {
    for (let step = 0; step < MAX_STEPS; step++) {
      const position = this.#positions.get(master);
      if (position === undefined) return;
      const pattern = `${this.#prefix}*`;
      const [next, keys] = await master.scanBuffer(position, "MATCH", pattern, "COUNT", STEP_KEYS);
      for (const key of keys) this.#add(key.toString("latin1"));
      this.#positions.set(master, String(next) === "0" ? undefined : String(next));
    }
  }

  #add(key: string): void {
    const [start = "", end = ""] = this.#prefix.split("*");
    const at = end === "" ? start.length : key.indexOf(end, start.length) + end.length;
    this.#names.add(key.slice(at));
  }
}
