/** Byte parts: puts the bodies of a batch into one piece, so that they are sent as they are. */

export interface BytePart {
  readonly start: number;
  /** Null: there is no body, which is not the same as an empty one. */
  readonly length: number | null;
}

export class ByteParts {
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  add(part: Uint8Array | null): BytePart {
    const start = this.#length;
    if (part === null) return { start, length: null };
    this.#parts.push(part);
    this.#length += part.length;
    return { start, length: part.length };
  }

  joined(): Uint8Array {
    return Buffer.concat(this.#parts, this.#length);
  }
}
