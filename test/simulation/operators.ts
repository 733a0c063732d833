/**
 * Operators: pause and resume destinations and change their documents while tasks run. An operator
 * that gets no result repeats the request at any node that is up.
 */
import type { Random } from "@redrive/core";
import { drawDocument } from "./documents.ts";
import { engineUp, type SimNode } from "./sim-node.ts";
import { TENANT, type World } from "./world.ts";

/** An operator gives up after this many requests without a result. */
const MAX_TRIES = 40;

/** Builds the change when it is made, because no two documents are equal. */
type Change = () => { readonly pausedAt: number | null } | { readonly document: string };

export class Operators {
  readonly #world: World;
  readonly #random: Random;
  readonly #nodes: readonly SimNode[];
  #puts = 0;

  constructor(world: World, random: Random, nodes: readonly SimNode[]) {
    this.#world = world;
    this.#random = random;
    this.#nodes = nodes;
  }

  #later(ms: number, fn: () => void): void {
    this.#world.clock.set(ms, fn);
  }

  #name(): string {
    return this.#world.destinationName(this.#random.next());
  }

  /** Pauses a destination for a while. */
  pause(atMs: number, forMs: number): void {
    const name = this.#name();
    this.#later(atMs, () => this.#change(name, () => ({ pausedAt: this.#world.clock.now() })));
    this.#later(atMs + forMs, () => this.#change(name, () => ({ pausedAt: null })));
  }

  /** Puts a document. */
  put(atMs: number): void {
    const name = this.#name();
    const draw = () => drawDocument(this.#random, ++this.#puts);
    this.#later(atMs, () => this.#change(name, () => ({ document: draw() })));
  }

  #change(name: string, change: Change, tries = 0): void {
    const retry = () => {
      if (tries < MAX_TRIES) this.#later(300, () => this.#change(name, change, tries + 1));
    };
    const engine = engineUp(this.#nodes, this.#random);
    if (engine === undefined) {
      retry();
      return;
    }
    engine.changeDestination(TENANT, name, change()).then((row) => {
      this.#world.check((checker) => checker.changed?.(this.#world.clock.now(), row));
    }, retry);
  }

  /** Resumes destinations that are still paused because the node died that was asked to resume. */
  release(): void {
    for (const { name, pausedAt } of this.#world.destinationRows()) {
      if (pausedAt === null) continue;
      this.#change(name, () => ({ pausedAt: null }));
      this.#later(3000, () => this.release());
    }
  }
}
