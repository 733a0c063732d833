/**
 * Trace: a 32-bit hash over all events of a run. Equal hashes show that two engines made the same
 * run. Uses MurmurHash3's mixing over the bytes of each number.
 */

export interface Trace {
  /** Adds one event to the hash. */
  record(at: number, kind: number, subject: number): void;

  /** Eight hexadecimal digits. */
  hash(): string;
}

export function createTrace(): Trace {
  const state = new Int32Array([0x9e3779b9, 0]);
  const number = new Float64Array(1);
  const words = new Int32Array(number.buffer);

  function mix(word: number): void {
    let block = Math.imul(word, 0xcc9e2d51);
    block = (block << 15) | (block >>> 17);
    let hash = (state[0] as number) ^ Math.imul(block, 0x1b873593);
    hash = (hash << 13) | (hash >>> 19);
    state[0] = Math.imul(hash, 5) + 0xe6546b64;
    state[1] = (state[1] as number) + 1;
  }

  return {
    record(at, kind, subject) {
      number[0] = at;
      mix(words[0] as number);
      mix(words[1] as number);
      mix(kind);
      mix(subject);
    },
    hash: () => finish((state[0] as number) ^ (state[1] as number)),
  };
}

function finish(state: number): string {
  let hash = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0).toString(16).padStart(8, "0");
}
