/**
 * Operators: who pauses and resumes destinations and changes their documents while tasks run, and
 * asks again, at whatever node is up, if told nothing.
 */
import type { Random } from "@redrive/core";
import { drawDocument } from "./documents.ts";
import { pickEngine, type SimNode } from "./sim-node.ts";
import { TENANT, type World } from "./world.ts";

/** An operator gives up after so many answers that say nothing. */
const MAX_TRIES = 40;

/** What is to be put: worked out when it is, since no two puts are alike. */
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

  #schedule(ms: number, fn: () => void): void {
    this.#world.clock.set(ms, fn);
  }

  #drawName(): string {
    return this.#world.destinationName(this.#random.next());
  }

  /** Pauses a destination for a while. */
  pause(atMs: number, forMs: number): void {
    const name = this.#drawName();
    this.#schedule(atMs, () => this.#change(name, () => ({ pausedAt: this.#world.clock.now() })));
    this.#schedule(atMs + forMs, () => this.#change(name, () => ({ pausedAt: null })));
  }

  /** Puts a document. */
  putDocument(atMs: number): void {
    const name = this.#drawName();
    const draw = () => drawDocument(this.#random, ++this.#puts);
    this.#schedule(atMs, () => this.#change(name, () => ({ document: draw() })));
  }

  #change(name: string, change: Change, tries = 0): void {
    const retry = () => {
      if (tries < MAX_TRIES) this.#schedule(300, () => this.#change(name, change, tries + 1));
    };
    const engine = pickEngine(this.#nodes, this.#random);
    if (engine === undefined) {
      retry();
      return;
    }
    engine.changeDestination(TENANT, name, change()).then((row) => {
      this.#world.check((checker) => checker.destinationChanged?.(this.#world.clock.now(), row));
    }, retry);
  }

  /** Resumes what is still paused, because whoever was asked to died. */
  resumeAll(): void {
    for (const { name, pausedAt } of this.#world.destinationRows()) {
      if (pausedAt === null) continue;
      this.#change(name, () => ({ pausedAt: null }));
      this.#schedule(3000, () => this.resumeAll());
    }
  }
}
