/**
 * Abort: the part of the host's `AbortSignal` that core relies on, so that core compiles without
 * host types. A real `AbortSignal` is one of these.
 */

export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}
