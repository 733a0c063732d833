/**
 * Library peers: the same work with other libraries and without one, one function per contender, for
 * `library.bench.mjs`. Peers are loaded by name, because they are not dependencies of a package. A
 * peer that does not run on this Node is skipped.
 */

/** @typedef {() => Promise<unknown>} Work */
/** @typedef {{ name: string, call: Work }} Peer */

/** The wrapped function for calls that succeed. */
export async function noop() {
  return 1;
}

export const failure = new Error("the other side is down");

/** The wrapped function for calls that fail. */
export async function failing() {
  throw failure;
}

const ATTEMPTS = 3;
const ATTEMPT_MS = 2_000;
const TOTAL_MS = 8_000;

/** More failures than any benchmark makes: the threshold of breakers that must stay closed. */
const NEVER = 1_000_000_000;

/** @param {string} name */
async function load(name) {
  try {
    return await import(name);
  } catch (error) {
    process.stderr.write(`${name} does not run on Node ${process.version}: ${error}\n`);
    return undefined;
  }
}

const cockatiel = await load("cockatiel");
const pRetry = (await load("p-retry"))?.default;
const asyncRetry = (await load("async-retry"))?.default;
const Opossum = (await load("opossum"))?.default;
const smithy = await load("@smithy/util-retry");
const effect = await load("effect");
const persistence = await load("effect/persistence");

/**
 * Returns the contenders whose library is installed.
 * @param {readonly [unknown, () => Peer | Promise<Peer>][]} offers
 * @returns {Promise<Peer[]>}
 */
async function available(offers) {
  const loaded = offers.filter(([library]) => library !== undefined);
  return Promise.all(loaded.map(([, make]) => make()));
}

/** Retry only. */
export const retryPeers = await available([
  [cockatiel, cockatielRetry],
  [smithy, smithyStandard],
  [pRetry, () => ({ name: "p-retry", call: () => pRetry(noop, { retries: ATTEMPTS - 1 }) })],
  [
    asyncRetry,
    () => ({ name: "async-retry", call: () => asyncRetry(noop, { retries: ATTEMPTS - 1 }) }),
  ],
  [effect, effectRetry],
]);

function cockatielRetry() {
  const policy = cockatiel.retry(cockatiel.handleAll, { maxAttempts: ATTEMPTS - 1 });
  return { name: "cockatiel", call: () => policy.execute(noop) };
}

function smithyStandard() {
  const strategy = new smithy.StandardRetryStrategy(ATTEMPTS);
  async function call() {
    let token = await strategy.acquireInitialRetryToken("bench");
    for (;;) {
      try {
        const value = await noop();
        strategy.recordSuccess(token);
        return value;
      } catch {
        token = await strategy.refreshRetryTokenForRetry(token, { errorType: "TRANSIENT" });
      }
    }
  }
  return { name: "@smithy/util-retry standard", call };
}

function effectRetry() {
  const { Effect } = effect;
  const program = Effect.retry(Effect.promise(noop), { times: ATTEMPTS - 1 });
  return { name: "effect retry", call: () => Effect.runPromise(program) };
}

/**
 * Breaker only, around `fn`. The breakers of `breakersThatStay` never open.
 * @param {() => Promise<unknown>} fn
 * @param {boolean} stays
 */
function breakers(fn, stays) {
  return available([
    [cockatiel, () => cockatielBreaker("cockatiel consecutive", fn, consecutive(stays))],
    [cockatiel, () => cockatielBreaker("cockatiel sampling", fn, sampling(stays))],
    [Opossum, () => opossumBreaker("opossum", fn, stays, {})],
    [
      Opossum,
      () => opossumBreaker("opossum lean", fn, stays, { rollingPercentilesEnabled: false }),
    ],
    [persistence, () => effectBreaker(fn, stays)],
  ]);
}

export const breakerPeers = await breakers(noop, false);
export const stayingBreakerPeers = await breakers(failing, true);

/** @param {boolean} stays */
function consecutive(stays) {
  return new cockatiel.ConsecutiveBreaker(stays ? NEVER : 5);
}

/** @param {boolean} stays */
function sampling(stays) {
  const minimumRps = stays ? NEVER : 2;
  return new cockatiel.SamplingBreaker({ threshold: 0.5, duration: 10_000, minimumRps });
}

/**
 * @param {string} name
 * @param {() => Promise<unknown>} fn
 * @param {unknown} breaker
 * @returns {Peer}
 */
function cockatielBreaker(name, fn, breaker) {
  const options = { halfOpenAfter: 5_000, breaker };
  const policy = cockatiel.circuitBreaker(cockatiel.handleAll, options);
  return { name, call: () => policy.execute(fn) };
}

/**
 * @param {string} name
 * @param {() => Promise<unknown>} fn
 * @param {boolean} stays
 * @param {object} more
 * @returns {Peer}
 */
function opossumBreaker(name, fn, stays, more) {
  const volumeThreshold = stays ? NEVER : 20;
  const breaker = new Opossum(fn, { timeout: false, volumeThreshold, ...more });
  return { name, call: () => breaker.fire() };
}

/**
 * @param {() => Promise<unknown>} fn
 * @param {boolean} stays
 * @returns {Promise<Peer>}
 */
async function effectBreaker(fn, stays) {
  const { Effect } = effect;
  const breaker = await openEffectBreaker(stays);
  const program = breaker.execute(Effect.tryPromise(fn), { key: "bench" });
  return { name: "effect breaker", call: () => Effect.runPromise(program) };
}

/**
 * A breaker with its memory store, in a scope that lives as long as the process.
 * @param {boolean} stays
 */
function openEffectBreaker(stays) {
  const { Effect, Scope } = effect;
  const { CircuitBreaker } = persistence;
  const options = {
    tripPolicy: CircuitBreaker.consecutive(stays ? NEVER : 5),
    openDuration: "5 seconds",
  };
  return Effect.runPromise(
    Scope.make().pipe(
      Effect.flatMap((/** @type {unknown} */ scope) =>
        CircuitBreaker.make(options).pipe(
          Effect.provideService(Scope.Scope, scope),
          Effect.provide(CircuitBreaker.layerStoreMemory()),
        ),
      ),
    ),
  );
}

/** Retry, breaker, a timeout per attempt and a total deadline. */
export const stackPeers = await available([
  [pRetry && Opossum, pRetryAroundOpossum],
  [cockatiel, () => cockatielStack("cockatiel wrap, cooperative", "cooperative")],
  [cockatiel, () => cockatielStack("cockatiel wrap, aggressive", "aggressive")],
  [persistence, effectStack],
]);

function pRetryAroundOpossum() {
  const breaker = new Opossum(noop, { timeout: ATTEMPT_MS, volumeThreshold: 20 });
  const options = { retries: ATTEMPTS - 1, maxRetryTime: TOTAL_MS };
  return { name: "p-retry around opossum", call: () => pRetry(() => breaker.fire(), options) };
}

/**
 * @param {string} name
 * @param {"cooperative" | "aggressive"} strategy
 */
function cockatielStack(name, strategy) {
  const { handleAll, retry, circuitBreaker, timeout, wrap, ConsecutiveBreaker } = cockatiel;
  const policy = wrap(
    timeout(TOTAL_MS, strategy),
    retry(handleAll, { maxAttempts: ATTEMPTS - 1 }),
    circuitBreaker(handleAll, { halfOpenAfter: 5_000, breaker: new ConsecutiveBreaker(5) }),
    timeout(ATTEMPT_MS, strategy),
  );
  return { name, call: () => policy.execute(noop) };
}

async function effectStack() {
  const { Effect } = effect;
  const breaker = await openEffectBreaker(false);
  const attempt = Effect.timeout(Effect.tryPromise(noop), ATTEMPT_MS);
  const guarded = breaker.execute(attempt, { key: "bench" });
  const program = Effect.timeout(Effect.retry(guarded, { times: ATTEMPTS - 1 }), TOTAL_MS);
  return {
    name: "effect timeout(retry(breaker(timeout)))",
    call: () => Effect.runPromise(program),
  };
}

/** A retry loop, as someone would write it in an hour without a library. */
export async function handWrittenRetry() {
  for (let attempt = 1; ; attempt++) {
    try {
      return await noop();
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 100 * 2 ** attempt));
    }
  }
}

const handWritten = { failures: 0, openUntil: 0 };

/** What someone would write in a day: the loop, a failure count, and a timer and a signal per attempt. */
export async function handWrittenStack() {
  const endAt = Date.now() + TOTAL_MS;
  for (let attempt = 1; ; attempt++) {
    if (Date.now() < handWritten.openUntil) throw new Error("circuit open");
    const controller = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    try {
      const late = new Promise((_, reject) => {
        timer = setTimeout(
          () => {
            controller.abort();
            reject(new Error("timeout"));
          },
          Math.min(ATTEMPT_MS, endAt - Date.now()),
        );
      });
      const value = await Promise.race([noopWith(controller.signal), late]);
      handWritten.failures = 0;
      return value;
    } catch (error) {
      if (++handWritten.failures >= 5) handWritten.openUntil = Date.now() + 5_000;
      if (attempt === ATTEMPTS || Date.now() >= endAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 100 * 2 ** attempt));
    } finally {
      clearTimeout(timer);
    }
  }
}

/** @param {AbortSignal} signal */
async function noopWith(signal) {
  return signal;
}
