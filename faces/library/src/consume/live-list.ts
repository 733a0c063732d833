/**
 * Live list: members that come and go all the time, such as the messages that are being handled. A set
 * that is filled and emptied again and again is copied repeatedly; here a member knows its place.
 */

export interface LiveMember {
  /** Its index in the list; -1 when it is not in it. Only the list changes it. */
  index: number;
}

export class LiveList<Member extends LiveMember> {
  readonly #members: Member[] = [];

  add(member: Member): void {
    member.index = this.#members.push(member) - 1;
  }

  /** Does nothing if it is not in the list. The order of the others may change. */
  remove(member: Member): void {
    if (member.index < 0) return;
    const last = this.#members.pop();
    if (last !== undefined && last !== member) {
      this.#members[member.index] = last;
      last.index = member.index;
    }
    member.index = -1;
  }

  /** The members at this moment. */
  all(): readonly Member[] {
    return [...this.#members];
  }
}
