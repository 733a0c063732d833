/**
 * End with Vitest: loaded into each worker before its tests. A worker outlives a Vitest that is
 * killed for as long as a test keeps it busy, and with it every server that the test has started;
 * the closing of its channel to Vitest is the sign to end at once.
 */

const MARK = Symbol.for("redrive.endsWithVitest");
const marked = /** @type {{ [MARK]?: boolean }} */ (globalThis);

// Files may share a worker, and this is loaded before each of them.
if (process.connected && marked[MARK] !== true) {
  marked[MARK] = true;
  // Vitest turns process.exit into a failed test, and nobody is left to read of it.
  process.once("disconnect", () => process.kill(process.pid, "SIGKILL"));
}
