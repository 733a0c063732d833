/**
 * Stack traces: runs a function without them. A trace costs more than most calls, and the faults of a
 * simulation are errors. The replay of a seed has traces.
 */
export async function withoutStackTraces<T>(run: () => Promise<T>): Promise<T> {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return await run();
  } finally {
    Error.stackTraceLimit = limit;
  }
}
