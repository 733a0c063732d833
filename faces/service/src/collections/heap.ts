/**
 * Heap: returns the smallest item in logarithmic time. The scheduler orders lanes with it by due
 * time; the memory store orders waiting tasks.
 */

export interface Heap<T> {
  push(item: T): void;
  /** The smallest item, without removing it. */
  peek(): T | undefined;
  pop(): T | undefined;
  size(): number;
}

/**
 * `isBefore` must be a strict order. The order of ties is undefined, so `isBefore` must break them.
 */
export function createHeap<T>(isBefore: (a: T, b: T) => boolean): Heap<T> {
  const items: T[] = [];

  function up(start: number): void {
    let index = start;
    const item = items[index] as T;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(item, items[parent] as T)) break;
      items[index] = items[parent] as T;
      index = parent;
    }
    items[index] = item;
  }

  function down(): void {
    const item = items[0] as T;
    const { length } = items;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= length) break;
      if (child + 1 < length && isBefore(items[child + 1] as T, items[child] as T)) child++;
      if (!isBefore(items[child] as T, item)) break;
      items[index] = items[child] as T;
      index = child;
    }
    items[index] = item;
  }

  return {
    push(item) {
      items.push(item);
      up(items.length - 1);
    },
    peek: () => items[0],
    pop() {
      const top = items[0];
      const last = items.pop();
      if (items.length > 0) {
        items[0] = last as T;
        down();
      }
      return top;
    },
    size: () => items.length,
  };
}
