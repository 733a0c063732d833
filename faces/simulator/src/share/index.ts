/** The surface of `@redrive/simulator/share`: a run of the simulator as a link, and back. */
export {
  type Decoded,
  decodeRun,
  encodeRun,
  linkTo,
  type SharedPolicy,
  type SharedRun,
  type SharedStrategy,
} from "./share.ts";
