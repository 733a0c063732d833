/**
 * Lane due: when the earliest waiting task of a lane is due, in one partition; and wake-ups, by which a
 * node tells the node that leases a partition.
 */
import { isObject } from "@redrive/core";
import { LANES, type Lane } from "./task.ts";

export interface LaneDue {
  readonly tenantId: string;
  readonly destination: string;
  readonly lane: Lane;
  readonly partition: number;
  readonly dueAt: number;
}

/** What is due later than this needs no wake-up: the node that leases its partition reads it in time. */
export const WAKE_UP_MS = 2000;

/**
 * Lanes in which another node has made tasks wait. Or: the nodes of the fleet have changed, wake-ups may
 * have been lost, or somebody who is not a node of this version has written to the channel.
 */
export type WakeUp = readonly LaneDue[] | "nodes-changed" | "lost" | "unreadable";

export type WakeUpListener = (wakeUp: WakeUp) => void;

export interface WakeUps {
  /** The partitions whose wake-ups the listener gets from now on. At first none. */
  follow(partitions: readonly number[]): void;
  stop(): void;
}

/** The listeners of a store. Each gets the lanes of the partitions that it follows, and everything else. */
export class WakeUpListeners {
  readonly #followed = new Map<WakeUpListener, ReadonlySet<number>>();
  readonly #changed: () => void;

  /** `changed` is called when other partitions are followed. */
  constructor(changed: () => void = () => {}) {
    this.#changed = changed;
  }

  add(listener: WakeUpListener): WakeUps {
    this.#followed.set(listener, new Set());
    return {
      follow: (partitions) => {
        this.#followed.set(listener, new Set(partitions));
        this.#changed();
      },
      stop: () => void this.#followed.delete(listener),
    };
  }

  /** The partitions that any listener follows. */
  partitions(): readonly number[] {
    return [...new Set([...this.#followed.values()].flatMap((followed) => [...followed]))];
  }

  tell(wakeUp: WakeUp): void {
    for (const [listener, followed] of this.#followed) {
      if (typeof wakeUp === "string") listener(wakeUp);
      else {
        const own = wakeUp.filter(({ partition }) => followed.has(partition));
        if (own.length > 0) listener(own);
      }
    }
  }
}

/** The most lanes of one message. */
const MAX_LANES = 10_000;

/**
 * The lanes of a message from another node. Anybody who reaches the channel of a store can write to it, so
 * what is not exactly a list of lanes is unreadable.
 */
export function readLanes(value: unknown): readonly LaneDue[] | "unreadable" {
  const isList = Array.isArray(value) && value.length <= MAX_LANES && value.every(isLaneDue);
  return isList ? value : "unreadable";
}

/** The same for a text. */
export function parseLanes(text: string): readonly LaneDue[] | "unreadable" {
  try {
    return readLanes(JSON.parse(text));
  } catch {
    return "unreadable";
  }
}

function isLaneDue(value: unknown): value is LaneDue {
  if (!isObject(value)) return false;
  const { tenantId, destination, lane, partition, dueAt } = value;
  const isNamed = isName(tenantId) && isName(destination) && LANES.includes(lane as Lane);
  const isPlaced = Number.isInteger(partition) && Number(partition) >= 0 && Number(partition) < 256;
  return isNamed && isPlaced && Number.isSafeInteger(dueAt) && Number(dueAt) >= 0;
}

function isName(value: unknown): boolean {
  return typeof value === "string" && value !== "" && value.length <= MAX_NAME;
}

/** Longer than the name of any tenant or destination. */
const MAX_NAME = 4096;
