/**
 * The public API of `@redrive/simulator/share`: converts a run of the simulator to a link and back.
 */
export {
  type Decoded,
  decodeRun,
  encodeRun,
  linkTo,
  type SharedPolicy,
  type SharedRun,
  type SharedStrategy,
} from "./share.ts";
