/**
 * The public surface of `@redrive/simulator`, which is being built: so far the arithmetic it runs on.
 */
export { compile, type Kernel } from "@redrive/core";
