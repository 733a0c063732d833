/**
 * Task intake: turns the input of a caller into a stored task. It chooses the policy, checks the
 * input, seals secrets, and hands the task to the engine.
 */
import type { Readable } from "node:stream";
import {
  assertKey,
  checkFields,
  DocumentError,
  type Fields,
  invalidArgument,
  isObject,
  RedriveError,
  resolvePolicy,
} from "@redrive/core";
import { parseBodyRef } from "../bodies/blob-store.ts";
import type { Bodies, BodySource, StoredBody } from "../bodies/bodies.ts";
import { memoize } from "../collections/bounded-cache.ts";
import {
  type AllowRule,
  isInBlock,
  parseAddress,
  parseAllowlist,
} from "../deliver/address-guard.ts";
import { parseTargetUrl, type RefusedTarget, type Target } from "../deliver/target.ts";
import type { Engine } from "../engine/engine.ts";
import type { CreateResult } from "../model/batch.ts";
import { isDisabled } from "../model/delivery/delivery-settings.ts";
import { serviceError, stopped } from "../model/errors.ts";
import type { NewId } from "../model/ids.ts";
import type { CallerTransaction, Store } from "../model/store.ts";
import { readDestination } from "../model/stored-documents.ts";
import {
  DEFAULT_TENANT,
  type NewTask,
  type RetryTask,
  withHops,
  withPlainHeaders,
} from "../model/task.ts";
import {
  asRequested,
  type DestinationPolicies,
  type Policies,
  type PolicyChoice,
} from "./policies.ts";
import type { Secrets } from "./secrets.ts";
import {
  checkInput,
  createTask,
  headersOf,
  isBodySource,
  type PlainTaskInput,
  type TaskInput,
} from "./task-input.ts";

interface TaskIntakeParts extends TaskChoicesParts {
  readonly store: Pick<Store, "createIn" | "exclusive" | "getDestination">;
  readonly newId: NewId;
  readonly secrets: Secrets;
  readonly bodies: Bodies;
}

/** How often a task chooses its policy, if each choice is removed before the task is stored. */
const MAX_TRIES = 5;

/** With a transaction of the caller, it becomes true when the caller commits. */
export interface Accepted {
  readonly taskId: string;
  /** The key existed; this is the task that it belongs to. */
  readonly replayed: boolean;
}

export class TaskIntake {
  readonly #parts: TaskIntakeParts;
  readonly #choices: TaskChoices;

  constructor(parts: TaskIntakeParts) {
    this.#parts = parts;
    this.#choices = new TaskChoices(parts);
  }

  /**
   * Resolves once the task is durable, or is written in the transaction of the options. `hops`: the
   * Redrive services that it has passed through.
   */
  async enqueue(
    given: TaskInput,
    options: string | EnqueueOptions,
    hops: number,
  ): Promise<Accepted> {
    const { tenantId, tx } = readEnqueueOptions(options, this.#parts.store);
    const input = withPlainHeaders(given);
    const { bodies } = this.#parts;
    if (isObject(input) && isBodySource(input.body)) {
      await this.check(input, tenantId);
      const stored = await bodies.store(tenantId, input.body);
      return this.#enqueueOwn({ input: withStored(input, stored), tenantId, hops, tx }, stored);
    }
    if (isObject(input) && input.bodyRef !== undefined) {
      await this.check(input, tenantId);
      await bodies.assertExists(tenantId, input.bodyRef);
    }
    return this.#enqueue({ input, tenantId, hops, tx });
  }

  /** Like `enqueue`, with a body that was stored for this task and belongs to no other. */
  enqueueStored(
    given: TaskInput,
    stored: StoredBody,
    tenantId: string,
    hops: number,
  ): Promise<Accepted> {
    const input = withStored(withPlainHeaders(given), stored);
    return this.#enqueueOwn({ input, tenantId, hops, tx: undefined }, stored);
  }

  /** Throws what `enqueue` would throw for this input, before its body is stored. */
  async check(given: TaskInput, tenantId: string): Promise<void> {
    const input = withPlainHeaders(given);
    const choice =
      this.#choices.known(input, tenantId) ?? (await this.#choices.choose(input, tenantId));
    const task = this.#newTask(input, tenantId, choice);
    this.#assertKey(task);
    if (!this.#choices.isKnownEnabled(task)) await this.#choices.assertEnabled(task);
  }

  /** Removes the body again if no task was created. If that is unknown, the collector finds out. */
  async #enqueueOwn(entry: Entry, { bodyRef }: StoredBody): Promise<Accepted> {
    const { bodies } = this.#parts;
    try {
      const accepted = await this.#enqueue(entry);
      if (accepted.replayed && bodyRef !== null) await bodies.discard(entry.tenantId, bodyRef);
      return accepted;
    } catch (error) {
      if (bodyRef !== null && isRefusal(error)) await bodies.discard(entry.tenantId, bodyRef);
      throw error;
    }
  }

  #fitsInline({ body }: NewTask): boolean {
    return body === null || body.length <= this.#parts.bodies.inlineBytes;
  }

  async #enqueue(entry: Entry): Promise<Accepted> {
    const { input, tenantId } = entry;
    for (let tries = 1; ; tries++) {
      const choice =
        this.#choices.known(input, tenantId) ?? (await this.#choices.choose(input, tenantId));
      const task = this.#newTask(input, tenantId, choice);
      if (!this.#choices.isKnownEnabled(task)) await this.#choices.assertEnabled(task);
      this.#assertKey(task);
      if (task.body !== null && !this.#fitsInline(task)) {
        return this.#enqueueLarge(entry, task.body);
      }
      const accepted = await new Promise<Accepted | null>((resolve, reject) => {
        this.#store(entry, task, resolve, reject);
      });
      if (accepted !== null) return accepted;
      // The policy was removed after it was chosen: choose again.
      this.#parts.policies.forget(tenantId, choice.policyId);
      if (tries === MAX_TRIES) throw policyRemoved(choice.policyId);
    }
  }

  /** The body is stored first, and then the same task refers to it. */
  async #enqueueLarge(entry: Entry, bytes: Uint8Array): Promise<Accepted> {
    const { input, tenantId } = entry;
    const bodyRef = await this.#parts.bodies.storeLarge(tenantId, bytes);
    const stored = { body: null, bodyRef } as const;
    const headers = input.json === undefined ? input.headers : headersOf(input);
    const placed = withStored({ ...input, ...(headers && { headers }) }, stored);
    return this.#enqueueOwn({ ...entry, input: placed }, stored);
  }

  #assertKey(task: NewTask): void {
    const policy = this.#parts.engine.policies.get(task);
    if (policy?.requireIdempotencyKey && task.idempotencyKey === null) assertKey(policy, {});
  }

  /** Calls `done` with null if the policy was removed meanwhile. */
  #store(
    { input, hops, tx }: Entry,
    task: NewTask,
    done: (accepted: Accepted | null) => void,
    failed: (error: unknown) => void,
  ): void {
    const { secrets, engine } = this.#parts;
    const { idempotencyKey: key, taskId } = task;
    const fingerprint =
      key === null ? null : secrets.fingerprint(fingerprintParts(asRequested(input, task)));
    const sealed = secrets.seal(withHops(task, hops));
    const report = (result: CreateResult) => {
      switch (result.kind) {
        case "created":
          done({ taskId, replayed: false });
          return;
        case "replayed":
          done({ taskId: result.taskId, replayed: true });
          return;
        case "unknown-policy":
          done(null);
          return;
        default:
          failed(keyConflict(key));
      }
    };
    if (tx === undefined) engine.create(sealed, fingerprint, report, failed);
    else this.#createIn(tx, sealed, fingerprint).then(report, failed);
  }

  #newTask(input: PlainTaskInput, tenantId: string, choice: PolicyChoice): NewTask {
    const { engine, newId, checkTarget } = this.#parts;
    const now = engine.now();
    const byte = engine.partitionByte(tenantId, input.idempotencyKey ?? null);
    const { policyId, policyVersion } = choice;
    const taskId = newId(now, byte);
    return createTask(input, { tenantId, taskId, now, policyId, policyVersion, checkTarget });
  }

  async #createIn(
    tx: CallerTransaction,
    task: NewTask,
    fingerprint: string | null,
  ): Promise<CreateResult> {
    const { engine, store } = this.#parts;
    if (!engine.isRunning() || store.createIn === undefined) throw stopped();
    return store.createIn(tx, { task, fingerprint });
  }

  create(task: NewTask, fingerprint: string | null): Promise<CreateResult> {
    return new Promise((resolve, reject) => {
      this.#parts.engine.create(task, fingerprint, resolve, reject);
    });
  }
}

/** An input to store, for whom and how. */
interface Entry {
  readonly input: PlainTaskInput;
  readonly tenantId: string;
  readonly hops: number;
  readonly tx: CallerTransaction | undefined;
}

// Enqueue options: what a caller may say about how a task is stored: for which tenant, and inside
// which transaction.

export interface EnqueueOptions {
  /**
   * A client of `pg` on which a transaction is open, connected to the database of the store. The task
   * exists once the caller commits. Default: the task is stored at once.
   */
  readonly tx?: CallerTransaction;
  /** Default: the tenant of an embedding process. */
  readonly tenantId?: string;
}

const WANTED_TX = "a pg client, with a function query(text, values)";

const FIELDS: Fields & Readonly<Record<keyof EnqueueOptions, unknown>> = {
  tx: (value: unknown) => (hasQuery(value) ? undefined : WANTED_TX),
  tenantId: (value: unknown) => (typeof value === "string" ? undefined : "a string"),
};

/** Throws `INVALID_ARGUMENT`, also for a transaction if the store has none of callers. */
function readEnqueueOptions(
  options: string | EnqueueOptions,
  { createIn }: Pick<Store, "createIn">,
): EnqueueOptions & { readonly tenantId: string } {
  if (typeof options === "string") return { tenantId: options };
  if (!isObject(options))
    throw invalidArgument("the options of enqueue must be an object", options);
  const problems = checkFields(options, FIELDS);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  const { tx, tenantId = DEFAULT_TENANT }: EnqueueOptions = options;
  if (!Object.hasOwn(options, "tx")) return { tenantId };
  // A client that is undefined by mistake must not store the task outside the transaction.
  if (tx === undefined) throw invalidArgument(`tx must be ${WANTED_TX}`, tx);
  if (createIn === undefined) throw noTransactions();
  return { tx, tenantId };
}

function hasQuery(value: unknown): boolean {
  return typeof (value as { readonly query?: unknown } | null)?.query === "function";
}

function noTransactions(): Error {
  const text = "enqueue with a transaction needs a PostgreSQL store (postgres://...)";
  const advice =
    "with another store, call enqueue after the commit and repeat it with the same key";
  return serviceError("INVALID_ARGUMENT", `${text}: ${advice}`);
}

// Task choices: what is found out about a new task before it is stored: its policy, and whether its
// target was disabled. What is in memory is used without a promise.

interface TaskChoicesParts {
  readonly engine: Engine;
  readonly store: Pick<Store, "exclusive" | "getDestination">;
  readonly policies: Policies;
  readonly destinationPolicies: DestinationPolicies;
  readonly checkTarget: (url: string) => Target | RefusedTarget;
}

class TaskChoices {
  readonly #parts: TaskChoicesParts;

  constructor(parts: TaskChoicesParts) {
    this.#parts = parts;
  }

  /**
   * Is it known that the target was not disabled? Throws `TARGET_DISABLED` for a target that responded
   * 410. A node of a fleet that has not used the destination yet accepts the task, and its first claim
   * ends it with the reason `target-gone`.
   */
  isKnownEnabled({ tenantId, destination, targetUrl }: NewTask): boolean {
    const { engine, store } = this.#parts;
    const known = engine.destinations.find(tenantId, destination);
    if (known !== undefined && isDisabled(known.delivery, targetUrl)) throw disabled(destination);
    return known?.fleetState.isRowKnown === true || !store.exclusive;
  }

  /** Reads the row of the destination. */
  async assertEnabled({ tenantId, destination, targetUrl }: NewTask): Promise<void> {
    const row = await this.#parts.store.getDestination(tenantId, destination);
    const reading = readDestination(row?.document ?? null);
    if (reading.kind === "unreadable") return;
    if (isDisabled(reading.value.delivery, targetUrl)) throw disabled(destination);
  }

  /** The policy, if it is known without a read of the store. */
  known(input: PlainTaskInput, tenantId: string): PolicyChoice | undefined {
    const { policies, destinationPolicies } = this.#parts;
    if (!isObject(input) || input.policy !== undefined) return undefined;
    if (input.policyId !== undefined) return policies.known(tenantId, input.policyId);
    return destinationPolicies.known(tenantId, this.#destinationOf(input));
  }

  /** Checks the input first, so that nothing is stored for an input that will be refused. */
  choose(input: PlainTaskInput, tenantId: string): Promise<PolicyChoice> {
    const { engine, policies, destinationPolicies } = this.#parts;
    const problems = checkInput(input, engine.now());
    if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
    const { policy, policyId } = input;
    if (policyId !== undefined) return policies.choose(tenantId, policyId);
    if (policy === undefined) {
      return destinationPolicies.choose(tenantId, this.#destinationOf(input));
    }
    resolvePolicy(policy);
    return policies.chooseInline(tenantId, policy);
  }

  /** The destination of the task; empty for an invalid target, which is refused later. */
  #destinationOf({ destination, targetUrl }: PlainTaskInput): string {
    if (destination !== undefined) return destination;
    const target = typeof targetUrl === "string" ? this.#parts.checkTarget(targetUrl) : undefined;
    return target?.ok ? target.origin : "";
  }
}

/** Why a task is refused after its input was found valid. */
function disabled(destination: string): Error {
  const text = "the target responded 410 Gone, so its destination has disabled it";
  const repair = `POST /destinations/${encodeURIComponent(destination)}/enable sends there again`;
  return serviceError("TARGET_DISABLED", `${text}; ${repair}`);
}

/** A policy that callers remove and register all the time. */
function policyRemoved(policyId: string): Error {
  return serviceError("UNKNOWN_POLICY", `policy ${JSON.stringify(policyId)} was removed`);
}

function keyConflict(key: string | null): Error {
  const text = `key ${JSON.stringify(key)} was used with another payload`;
  return serviceError("IDEMPOTENCY_CONFLICT", text);
}

// Fingerprint: what an idempotency key stands for. A second request with the same key must have the
// same fingerprint.

/** Headers that may differ between two requests with the same meaning. */
const VOLATILE_HEADERS = /^(traceparent|tracestate|baggage|date|x-request-id|idempotency-key)$/i;

/** What an idempotency key stands for: two requests with one key must agree in all of it. */
export function fingerprintParts(task: NewTask): readonly (string | Uint8Array)[] {
  const headers = Object.entries(task.headers)
    .filter(([name]) => !VOLATILE_HEADERS.test(name))
    .map(([name, value]) => `${name.toLowerCase()}:${value}`)
    .sort();
  const text = JSON.stringify([task.method, task.targetUrl, task.policyId, headers]);
  if (task.bodyRef !== null) return [text, ...blobParts(task.bodyRef)];
  return task.body === null ? [text] : [text, task.body];
}

/** The bytes count, not their name: a repeated upload has another name. */
function blobParts(bodyRef: string): readonly string[] {
  const { length, sha256 } = parseBodyRef(bodyRef) ?? {};
  return [`\n${length}\n${sha256}`];
}

/** Stores bodies for tasks, and reads the stored body of a task. */
export class BodyOperations {
  readonly #bodies: Bodies;
  readonly #intake: TaskIntake;

  constructor(bodies: Bodies, intake: TaskIntake) {
    this.#bodies = bodies;
    this.#intake = intake;
  }

  /**
   * Stores a body for tasks to come and resolves with its `bodyRef` once it is durable. A body that no
   * task uses within six hours is removed.
   */
  upload(
    source: BodySource,
    tenantId: string = DEFAULT_TENANT,
    signal?: AbortSignal,
  ): Promise<string> {
    return this.#bodies.upload(tenantId, source, signal);
  }

  /** Stores a body for one task, in the blob store only if it is too long for a row. */
  store(
    source: BodySource,
    tenantId: string = DEFAULT_TENANT,
    signal?: AbortSignal,
  ): Promise<StoredBody> {
    return this.#bodies.store(tenantId, source, signal);
  }

  /** Like `enqueue`, with a body that was stored for this task alone. */
  enqueue(
    input: TaskInput,
    stored: StoredBody,
    tenantId: string = DEFAULT_TENANT,
    hops = 0,
  ): Promise<Accepted> {
    return this.#intake.enqueueStored(input, stored, tenantId, hops);
  }

  /** Throws what `enqueue` would throw for this input, before its body is stored. */
  checkInput(input: TaskInput, tenantId: string = DEFAULT_TENANT): Promise<void> {
    return this.#intake.check(input, tenantId);
  }

  /** Throws `BODY_TOO_LARGE` for a body of this many bytes. */
  assertFits(bytes: number): void {
    this.#bodies.assertFits(bytes);
  }

  /** The body of a task that is in the blob store. It fails if the bytes are not those stored. */
  async open(task: Pick<RetryTask, "tenantId" | "bodyRef">): Promise<Readable> {
    return (await this.#bodies.open(task)).stream;
  }
}

// Stored body: the input of a task whose body is stored already, and when that body is not needed.

/** The input with its body at the place where it was stored. */
function withStored(input: PlainTaskInput, { body, bodyRef }: StoredBody): PlainTaskInput {
  const { body: _, bodyBase64: __, json: ___, ...rest } = input;
  return bodyRef === null ? { ...rest, body } : { ...rest, bodyRef };
}

/** Errors after which it is certain that no task was created. */
const REFUSALS: ReadonlySet<string> = new Set([
  "INVALID_ARGUMENT",
  "INVALID_POLICY",
  "IDEMPOTENCY_CONFLICT",
  "IDEMPOTENCY_KEY_REQUIRED",
  "STORE_FULL",
  "STORE_REFUSED",
  "TARGET_DENIED",
  "TARGET_DISABLED",
  "UNKNOWN_POLICY",
]);

function isRefusal(error: unknown): boolean {
  return error instanceof RedriveError && REFUSALS.has(error.code);
}

// Key targets: checks the targets of one API key, if the key has a list. The check runs when a task
// is created or redriven, on the host as written. A name must be listed as a name; its addresses
// are checked by the address guard at every attempt.

const rulesOf = memoize(1000, parseAllowlist);

/**
 * Throws `TARGET_DENIED` for a URL that is not in the list. Malformed URLs are rejected elsewhere.
 */
export function assertKeyTargets(targets: string | undefined, urls: readonly unknown[]): void {
  if (targets === undefined) return;
  for (const url of urls) {
    const parsed = typeof url === "string" ? parseTargetUrl(url) : undefined;
    if (parsed === undefined) continue;
    const { url: address, port, host } = parsed;
    if (!rulesOf(targets).some((rule) => isListed(rule, address.hostname, port))) {
      throw serviceError("TARGET_DENIED", `this API key may not send to ${host}`);
    }
  }
}

function isListed(rule: AllowRule, hostname: string, port: number): boolean {
  if (rule.port !== undefined && rule.port !== port) return false;
  const bytes = parseAddress(hostname);
  if (bytes !== undefined) return rule.block !== undefined && isInBlock(bytes, rule.block);
  return rule.name === hostname.toLowerCase().replace(/\.$/, "");
}
