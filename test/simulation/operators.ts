/**
 * Operators: pause and resume destinations and change their documents while tasks run. An operator
 * that gets no result retries at any node that is up.
 */
import type { Random } from "@redrive/core";
import { drawDocument, isReadable, newerDocument } from "./documents.ts";
import { pickEngine, type SimNode } from "./sim-node.ts";
import { TENANT, type World } from "./world.ts";

/** Operators that retry have given up by then. */
const RESUME_ROUNDS = 10;

/** An operator gives up after this many tries without a result. */
const MAX_TRIES = 40;

/** Creates the change at the time of the put, because every put is unique. */
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

  /** Schedules a change of a document. */
  putDocument(atMs: number): void {
    const name = this.#drawName();
    const draw = () => drawDocument(this.#random, ++this.#puts);
    this.#schedule(atMs, () => this.#change(name, () => ({ document: draw() })));
  }

  /** A newer version writes a document that the nodes cannot read, and later one that they can. */
  putNewerDocument(atMs: number, forMs: number): void {
    const name = this.#drawName();
    const newer = () => ({ document: newerDocument(++this.#puts) });
    this.#schedule(atMs, () => this.#change(name, newer));
    this.#schedule(atMs + forMs, () => this.#putReadable(name));
  }

  #putReadable(name: string): void {
    this.#change(name, () => ({ document: drawDocument(this.#random, ++this.#puts) }));
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
      this.#world.check("destinationChanged", this.#world.clock.now(), row);
    }, retry);
  }

  /**
   * Resumes destinations that are still held because a node died before it resumed them, or because an
   * operator that retries was late.
   */
  resumeAll(rounds = RESUME_ROUNDS): void {
    for (const { name, pausedAt, document } of this.#world.destinationRows()) {
      if (pausedAt !== null) this.#change(name, () => ({ pausedAt: null }));
      else if (!isReadable(document)) this.#putReadable(name);
    }
    if (rounds > 1) this.#schedule(3000, () => this.resumeAll(rounds - 1));
  }
}
