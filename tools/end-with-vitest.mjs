/**
 * End with Vitest: ends a test worker when Vitest is killed. Otherwise a busy worker would continue
 * to run, with every server that its test started. Each worker loads this before its tests and exits
 * when its channel to Vitest closes.
 */

const MARK = Symbol.for("redrive.endsWithVitest");
const marked = /** @type {{ [MARK]?: boolean }} */ (globalThis);

// Several test files may share a worker, which loads this file before each of them.
if (process.connected && marked[MARK] !== true) {
  marked[MARK] = true;
  // Vitest turns process.exit into a failed test, so the worker kills itself instead.
  process.once("disconnect", () => process.kill(process.pid, "SIGKILL"));
}
