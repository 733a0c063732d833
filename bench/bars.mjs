/**
 * Bars: compares the results of a benchmark with its limits. If a result misses its limit, the
 * program exits with 1.
 */

/**
 * @typedef {object} Bar
 * @property {string} of name of the contender
 * @property {number} [ratio] at most this many times the baseline
 * @property {readonly string[]} [below] at most as much as each of these
 * @property {number} [ns] at most this many nanoseconds
 * @property {number} [bytes] at most this many bytes allocated per operation
 */

/** @typedef {{ bar: string, got: string, ok: boolean }} Verdict */
/** @typedef {import("./harness.mjs").Report} Report */
/** @typedef {import("./harness.mjs").Result} Result */

/**
 * @param {Report} report
 * @param {readonly Bar[]} bars
 * @returns {Verdict[]}
 */
export function judge(report, bars) {
  return bars.flatMap((bar) => judgeOne(report, bar));
}

/**
 * @param {Report} report
 * @param {Bar} bar
 * @returns {Verdict[]}
 */
function judgeOne({ results, baseline }, { of, ratio, below, ns, bytes }) {
  const own = find(results, of);
  const verdicts = [];
  if (ratio !== undefined) {
    verdicts.push(atMost(`${of}: at most ${ratio} x ${baseline}`, own.ratio, ratio));
  }
  if (ns !== undefined) verdicts.push(atMost(`${of}: at most ${ns} ns`, own.nsPerOp, ns));
  if (bytes !== undefined && own.bytesPerOp !== undefined) {
    verdicts.push(atMost(`${of}: at most ${bytes} bytes`, own.bytesPerOp, bytes));
  }
  const rivals = (below ?? []).map((name) => find(results, name));
  const best = rivals.toSorted((a, b) => a.ratio - b.ratio)[0];
  if (best !== undefined) {
    const bar = `${of}: at most the best peer, ${best.name} at ${best.ratio.toFixed(2)}`;
    verdicts.push({ bar, got: own.ratio.toFixed(2), ok: own.ratio <= best.ratio });
  }
  return verdicts;
}

/**
 * @param {string} bar
 * @param {number} got
 * @param {number} most
 * @returns {Verdict}
 */
function atMost(bar, got, most) {
  return { bar, got: got.toFixed(got < 100 ? 2 : 0), ok: got <= most };
}

/**
 * Checks that contenders cost about the same: the most expensive at most `factor` times the cheapest.
 * @param {Report} report
 * @param {readonly string[]} names
 * @param {number} factor
 * @returns {Verdict}
 */
export function flat({ results }, names, factor) {
  const costs = names.map((name) => find(results, name).nsPerOp);
  const spread = Math.max(...costs) / Math.min(...costs);
  return atMost(`${names.join(", ")}: within ${factor} x of each other`, spread, factor);
}

/**
 * @param {readonly Result[]} results
 * @param {string} name
 * @returns {Result}
 */
function find(results, name) {
  const found = results.find((result) => result.name === name);
  if (found === undefined) throw new Error(`there is no contender ${JSON.stringify(name)}`);
  return found;
}

/**
 * Prints the verdicts, or one line of JSON with `--json`.
 * @param {string} name
 * @param {readonly Verdict[]} verdicts
 */
export function printVerdicts(name, verdicts) {
  if (verdicts.some(({ ok }) => !ok)) process.exitCode = 1;
  if (process.argv.includes("--json")) {
    process.stdout.write(`${JSON.stringify({ name, verdicts })}\n`);
    return;
  }
  const lines = verdicts.map(({ bar, got, ok }) => `  ${ok ? "ok  " : "MISS"} ${bar}; got ${got}`);
  process.stdout.write(`${lines.join("\n")}\n`);
}
