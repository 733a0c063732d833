/** Heap: the smallest of many members, for what the brokers of a scenario keep in order. */

export class Heap<Member> {
  readonly #members: Member[] = [];
  readonly #isBefore: (a: Member, b: Member) => boolean;

  constructor(isBefore: (a: Member, b: Member) => boolean) {
    this.#isBefore = isBefore;
  }

  get size(): number {
    return this.#members.length;
  }

  first(): Member | undefined {
    return this.#members[0];
  }

  push(member: Member): void {
    const members = this.#members;
    let at = members.push(member) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = members[parent] as Member;
      if (!this.#isBefore(member, above)) break;
      members[at] = above;
      at = parent;
    }
    members[at] = member;
  }

  pop(): Member | undefined {
    const members = this.#members;
    const first = members[0];
    const last = members.pop();
    if (last === undefined || members.length === 0) return first;
    members[this.#sink(last)] = last;
    return first;
  }

  #sink(member: Member): number {
    const members = this.#members;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= members.length) return at;
      const other = members[child + 1];
      if (other !== undefined && this.#isBefore(other, members[child] as Member)) child++;
      const below = members[child] as Member;
      if (!this.#isBefore(below, member)) return at;
      members[at] = below;
      at = child;
    }
  }
}
