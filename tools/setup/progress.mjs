/**
 * Progress: prints what is running and, after two seconds, for how long. On a terminal it redraws one
 * line; elsewhere it prints a new line every five seconds. Of work that runs at the same time, the line
 * is that of what started first.
 */

const QUIET_MS = 2_000;
const TERMINAL_TICK_MS = 250;
const PLAIN_TICK_MS = 5_000;

/**
 * What is running, the first first. `isAlone`: nothing else has run meanwhile.
 * @type {Set<{ isAlone: boolean }>}
 */
const running = new Set();

/** @param {string} line */
export function say(line) {
  process.stdout.write(`${line}\n`);
}

/**
 * Prints `label` and shows progress until `end` is called.
 * @param {string} label
 * @param {() => string} detail the latest output of the work, shown only on a terminal
 * @returns {{ end(outcome: string): void }}
 */
export function startProgress(label, detail = () => "") {
  const startMs = performance.now();
  const isTerminal = process.stdout.isTTY === true;
  const own = { isAlone: running.size === 0 };
  for (const other of running) other.isAlone = false;
  running.add(own);
  say(label);
  const tick = () => {
    const elapsedMs = performance.now() - startMs;
    const [first] = running;
    if (elapsedMs < QUIET_MS || first !== own) return;
    if (isTerminal) rewriteLine(`  ${seconds(elapsedMs, 0)}  ${detail()}`);
    else say(`  still running, ${seconds(elapsedMs, 0)}`);
  };
  const timer = setInterval(tick, isTerminal ? TERMINAL_TICK_MS : PLAIN_TICK_MS);
  return {
    end(outcome) {
      clearInterval(timer);
      running.delete(own);
      if (isTerminal) rewriteLine("");
      const what = own.isAlone ? "" : `${label}: `;
      say(`  ${what}${outcome} in ${seconds(performance.now() - startMs, 1)}`);
    },
  };
}

/**
 * @param {number} ms
 * @param {number} digits
 */
export function seconds(ms, digits) {
  return `${(ms / 1000).toFixed(digits)} s`;
}

/** @param {string} line cut to the width of the terminal, because a wrapped line cannot be erased */
function rewriteLine(line) {
  const width = (process.stdout.columns ?? 80) - 1;
  process.stdout.write(`\r\u001b[2K${line.slice(0, width)}`);
}
