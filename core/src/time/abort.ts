/**
 * Abort: the part of `AbortSignal` that core uses, so core compiles without DOM or Node types. A real
 * `AbortSignal` fits this type.
 */

export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}
