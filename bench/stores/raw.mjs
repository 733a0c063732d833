/** Raw as a contender: the limit, a bare undici pool. It stores nothing, so it only drains. */
import { raw } from "../service-parts.mjs";

/** @type {import("./contender.mjs").Open} */
export async function open({ origin }) {
  const none = async () => {};
  return {
    add: none,
    addMany: none,
    start: none,
    stop: none,
    close: none,
    drain: (count) => raw(origin, count),
  };
}
