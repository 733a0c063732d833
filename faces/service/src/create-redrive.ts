/**
 * Create Redrive: connects the store, the engine and the delivery with the real clock, randomness
 * and ids. No other file of the service knows where these come from.
 */
import { getRandomValues } from "node:crypto";
import { systemClock, systemRandom } from "@redrive/core";
import { BlobCollector } from "./bodies/blob-collector.ts";
import { Bodies } from "./bodies/bodies.ts";
import { openServiceBlobs } from "./bodies/open-blobs.ts";
import { memoize } from "./collections/bounded-cache.ts";
import type { TargetPolicy } from "./deliver/address-guard.ts";
import { createBrokerSender } from "./deliver/broker-sender.ts";
import { createDeliverer, type Deliverer } from "./deliver/deliverer.ts";
import { defaultAttemptsAtOnce, openFileLimit } from "./deliver/failure.ts";
import { createGrpcSender } from "./deliver/grpc.ts";
import { checkTarget } from "./deliver/target.ts";
import { deliverTasks } from "./deliver-tasks.ts";
import { Engine } from "./engine/engine.ts";
import { announceKeys, openSecrets, sha256 } from "./intake/secrets.ts";
import { CommitMeter, guardedStore, limitOf } from "./model/guarded-store.ts";
import { uuidV7 } from "./model/ids.ts";
import type { Store } from "./model/store.ts";
import { openStore } from "./open-store.ts";
import type { Telemetry, TelemetryOptions } from "./open-telemetry.ts";
import { resolveAlerts } from "./operations/alerts.ts";
import { followUps } from "./operations/follow-ups.ts";
import { Redrive, type RedriveParts } from "./redrive.ts";
import { checkOptions, type RedriveOptions } from "./redrive-options.ts";

/** The cache takes a few MiB at most. */
const CACHED_TARGETS = 1000;

/**
 * Checks the options, opens the store, loads its state, and starts. A failure leaves nothing open.
 */
export async function createRedrive(options: RedriveOptions): Promise<Redrive> {
  const targets = checkOptions(options);
  const { clock = systemClock } = options;
  const opened = await openStore(options.store);
  const meter = new CommitMeter(clock);
  const lifetime = { isClosed: false };
  const rules = { meter, lifetime, ...limitOf(clock, opened) };
  const store = guardedStore(opened, rules);
  const deliverer = createDeliverer({
    clock,
    targets,
    createGrpcSender,
    createBrokerSender,
    ...(options.resolver !== undefined && { resolver: options.resolver }),
  });
  const close = async () => {
    await deliverer.close();
    lifetime.isClosed = true;
    await store.close();
  };
  try {
    const onCommit: CommitMeter["onCommit"] = (listener) => meter.onCommit(listener);
    return await start(options, { clock, store, onCommit, targets, deliverer, close });
  } catch (error) {
    await close();
    throw error;
  }
}

function fill(bytes: Uint8Array): void {
  getRandomValues(bytes);
}

interface OpenParts extends Pick<RedriveParts, "clock" | "store" | "onCommit" | "close"> {
  readonly targets: TargetPolicy;
  readonly deliverer: Deliverer;
}

async function start(options: RedriveOptions, parts: OpenParts): Promise<Redrive> {
  const { clock, store, targets, deliverer } = parts;
  const secrets = await openSecrets(store.documents, fill, options.encryptionKey);
  const newId = uuidV7(fill);
  const nodeId = newId(clock.now());
  const bodies = await openBodies(options, parts, () => newId(clock.now()));
  const telemetry = await loadTelemetry(options.telemetry);
  const engine = await Engine.open({
    clock,
    random: options.random ?? systemRandom,
    store,
    deliver: deliverTasks({ clock, deliverer, secrets, bodies }),
    followUp: followUps(newId),
    startTrace: telemetry?.startTrace,
    nodeId,
    ...(options.retryBudget !== undefined && { retryBudget: options.retryBudget }),
    attemptsAtOnce: options.attemptsAtOnce ?? defaultAttemptsAtOnce(openFileLimit()),
    attemptsPerOrigin: options.attemptsPerOrigin,
    ...(options.retentionMs !== undefined && { retentionMs: options.retentionMs }),
    ...(options.deadLetterRetentionMs !== undefined && {
      deadLetterRetentionMs: options.deadLetterRetentionMs,
    }),
    leaseMs: options.leaseMs,
    maxClockStepMs: options.maxClockStepMs,
    maxClockAheadMs: options.maxClockAheadMs,
    onFatal: options.onFatal ?? ((error) => clock.endOfTurn(() => rethrow(error))),
  });
  if (telemetry !== undefined) engine.events.listen(telemetry.onEvent);
  await engine.start();
  if (!store.exclusive) await announceKeys(store.documents, secrets, nodeId, engine.nodes());
  const redrive = new Redrive({
    ...parts,
    store: guardedStore(store, { failed: (error) => engine.recordStoreFailure(error) }),
    engine,
    newId,
    digest: sha256,
    secrets,
    bodies,
    close: async () => {
      await parts.close();
      await bodies.blobs?.close();
    },
    checkTarget: memoize(CACHED_TARGETS, (url) => checkTarget(url, targets)),
    alerts: options.alerts && resolveAlerts(options.alerts),
  });
  collectBlobs(engine, store, bodies);
  try {
    await redrive.jobs.open();
  } catch (error) {
    await engine.stop(0);
    throw error;
  }
  return redrive;
}

/** Loaded only if it is configured, so that others do not pay for it. */
async function loadTelemetry(
  options: TelemetryOptions | undefined,
): Promise<Telemetry | undefined> {
  if (options === undefined) return undefined;
  const { openTelemetry } = await import("./open-telemetry.ts");
  return openTelemetry(options);
}

async function openBodies(
  { store: name, blobs: text, inlineBodyBytes: inlineBytes, maxBodyBytes }: RedriveOptions,
  { clock, store }: OpenParts,
  newBlobId: () => string,
): Promise<Bodies> {
  const { documents, exclusive } = store;
  const options = { clock, documents, exclusive, newId: newBlobId };
  const blobs = await openServiceBlobs(text, name, options);
  return new Bodies({ blobs, newBlobId, inlineBytes, maxBodyBytes });
}

function collectBlobs(engine: Engine, { query }: Store, { blobs }: Bodies): void {
  if (blobs === null) return;
  const collector = new BlobCollector({ blobs, query, now: () => engine.now() });
  engine.addMaintenance(() => collector.runOnce());
}

function rethrow(error: unknown): never {
  throw error;
}
