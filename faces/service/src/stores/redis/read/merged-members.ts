/**
 * Merged members: reads sorted sets of many partitions as one sorted list. Each set is read in chunks.
 * A member is passed on once every set was read beyond it.
 */
import type { Link } from "../connection/link.ts";
import { bytesOf, listOf } from "../connection/reply.ts";

export interface MemberRange {
  /** Sorted sets in which all scores are 0. */
  readonly keys: readonly string[];
  readonly isDescending: boolean;
  /** Each member begins with it; it is removed. Default: none. */
  readonly prefix?: string;
  /** Inclusive. Default: the first. */
  readonly from?: string | undefined;
  /** Exclusive. Default: the end. */
  readonly to?: string | undefined;
  /** Exclusive: where the previous page ended. */
  readonly after?: string | undefined;
}

interface Source {
  readonly key: string;
  members: string[];
  last: string | undefined;
  isRead: boolean;
}

const MIN_CHUNK = 8;
const MAX_CHUNK = 500;

/** Follows every prefix in the order of bytes: `\n` ends a prefix, and `\v` is the next character. */
function endOf(prefix: string): string {
  return prefix === "" ? "+" : `(${prefix.slice(0, -1)}\v`;
}

/** Members are compared as bytes, as Redis does, and returned as text. */
export class MergedMembers {
  readonly #link: Link;
  readonly #range: MemberRange;
  readonly #sources: readonly Source[];
  #ready: string[] = [];

  constructor(link: Link, range: MemberRange) {
    this.#link = link;
    this.#range = range;
    this.#sources = range.keys.map((key) => ({ key, members: [], last: undefined, isRead: false }));
  }

  /** The next members, without duplicates. Fewer than `count`: the list is complete. */
  async next(count: number): Promise<readonly string[]> {
    while (this.#ready.length < count && this.#sources.some(isOpen)) await this.#read(count);
    const members = this.#ready.slice(0, count);
    this.#ready = this.#ready.slice(count);
    return members.map((member) => Buffer.from(member, "latin1").toString());
  }

  /** Reads the sources that have nothing left, and moves what all have passed to `#ready`. */
  async #read(count: number): Promise<void> {
    const share = Math.ceil((2 * count) / this.#sources.length);
    const chunk = Math.min(MAX_CHUNK, Math.max(MIN_CHUNK, share));
    const empty = this.#sources.filter((one) => one.members.length === 0 && !one.isRead);
    await Promise.all(empty.map((source) => this.#fill(source, chunk)));
    const bound = this.#bound();
    const found = this.#sources.flatMap((source) => this.#take(source, bound));
    const sorted = [...new Set(found)].sort(this.#isAfter);
    this.#ready.push(...sorted.filter((member) => member !== this.#ready.at(-1)));
  }

  async #fill(source: Source, chunk: number): Promise<void> {
    const { prefix = "" } = this.#range;
    const [low, high] = this.#limits(source.last);
    const [command, ...bounds] = this.#range.isDescending
      ? ["zrevrangebylex", high, low]
      : ["zrangebylex", low, high];
    const reply = await this.#link.call(
      command as string,
      source.key,
      ...bounds,
      "LIMIT",
      0,
      chunk,
    );
    const members = listOf(reply).map((member) => bytesOf(member).toString("latin1"));
    source.last = members.at(-1) ?? source.last;
    const skipped = Buffer.byteLength(prefix);
    source.members = members.map((member) => member.slice(skipped));
    source.isRead = members.length < chunk;
  }

  /** The bounds of a command, with the sign of each. */
  #limits(last: string | undefined): readonly [Buffer, Buffer] {
    const { prefix = "", from, to, after, isDescending } = this.#range;
    const low = from === undefined ? `[${prefix}` : `[${prefix}${from}`;
    const high = to === undefined ? endOf(prefix) : `(${prefix}${to}`;
    const passed = passedOf(prefix, last, after);
    const lowest = prefix === "" && from === undefined ? "-" : low;
    if (isDescending) return [Buffer.from(lowest), passed ?? Buffer.from(high)];
    return [passed ?? Buffer.from(lowest), Buffer.from(high)];
  }

  /** The member up to which every source was read; undefined: all are complete. */
  #bound(): string | undefined {
    const lasts = this.#sources
      .filter(({ isRead }) => !isRead)
      .map(({ members }) => members.at(-1));
    return lasts.sort((a = "", b = "") => this.#isAfter(a, b))[0];
  }

  #take(source: Source, bound: string | undefined): readonly string[] {
    const { members } = source;
    if (bound === undefined) {
      source.members = [];
      return members;
    }
    const count = members.filter((member) => this.#isAfter(member, bound) <= 0).length;
    source.members = members.slice(count);
    return members.slice(0, count);
  }

  readonly #isAfter = (a: string, b: string): number => {
    if (a === b) return 0;
    return a < b === this.#range.isDescending ? 1 : -1;
  };
}

function isOpen({ members, isRead }: Source): boolean {
  return !isRead || members.length > 0;
}

/** After the last member that was read, or after the previous page. */
function passedOf(
  prefix: string,
  last: string | undefined,
  after: string | undefined,
): Buffer | undefined {
  if (last !== undefined) return Buffer.concat([Buffer.from("("), Buffer.from(last, "latin1")]);
  return after === undefined ? undefined : Buffer.from(`(${prefix}${after}`);
}
