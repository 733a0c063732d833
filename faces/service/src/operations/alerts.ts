/**
 * Alerts: posts to a webhook when dead letters pile up, a breaker opens, tasks are late or the clock is
 * refused, again while that lasts, and when it is over. From its first instant to its end this is one
 * *episode*. Episodes are documents of the store, so all nodes of a fleet know the same ones. Each post
 * is a task whose key names the episode: it is retried like any other task, and posted once.
 */
import {
  type Cancel,
  type Clock,
  checkFields,
  type FieldProblem,
  type Fields,
  formatDuration,
  numberRule,
  textRule,
} from "@redrive/core";
import type { Engine } from "../engine/engine.ts";
import type { EngineEvent } from "../engine/events.ts";
import { sha256 } from "../intake/secrets.ts";
import type { TaskIntake } from "../intake/task-intake.ts";
import type { DestinationRow } from "../model/destination-row.ts";
import type { DocumentTable, StoredDocument } from "../model/document-table.ts";
import type { NewId } from "../model/ids.ts";
import type { Store } from "../model/store.ts";
import { parseStored } from "../model/stored-documents.ts";
import { DEFAULT_TENANT, type NewTask } from "../model/task.ts";
import { internalTask, isInternalAlert } from "./follow-ups.ts";

/** What the alerts watch and use. */
interface AlertSource {
  readonly clock: Clock;
  readonly nodeId: string;
  /** No other process uses the store, so what this node sees is everything. */
  readonly exclusive: boolean;
  readonly documents: DocumentTable;
  now(): number;
  onEvent(listener: (event: EngineEvent) => void): () => void;
  /** When the oldest task was due that waits although nothing holds it; Infinity: none waits. */
  oldestDueAt(): number;
  /** The rows of a tenant whose circuit is not closed, at most `limit`. */
  openCircuits(tenantId: string, limit: number): Promise<readonly DestinationRow[]>;
  newTaskId(now: number, idempotencyKey: string): string;
  /** Creates the task, unless one with its key exists. */
  create(task: NewTask): Promise<unknown>;
}

type AlertKind = "dead-letters" | "breaker-open" | "late-tasks" | "clock-refused";

/** What an alert is about. */
interface Subject {
  readonly kind: AlertKind;
  readonly tenantId: string | null;
  readonly destination: string | null;
}

/** An episode that is not over. */
interface Firing extends Subject {
  /** Its first instant. */
  readonly since: number;
}

/** Alerts have a destination of their own, whatever else is sent to the same server. */
const ALERT_DESTINATION = "redrive.alerts";

/** How often rates, lateness and due posts are checked. */
const CHECK_MS = 10_000;

/** If more episodes last at once, the first ones are reported. */
const MAX_FIRING = 1000;

/** What a node has not reported for this time does not count. */
const REPORT_MS = 3 * CHECK_MS;

/** An episode that is over is remembered for a day. */
const FORGET_MS = 86_400_000;

/** Of the digest that distinguishes the places of alerts of one kind. */
const PLACE_DIGITS = 16;

const EPISODE_KIND = "alert";
const REPORT_KIND = "alert-report";
const PAGE = 250;

/** What is seen now, and what an alert about it says. */
interface Condition extends Subject, AlertText {
  readonly isOn: boolean;
  /** When it began or ended. */
  readonly at: number;
}

interface AlertText {
  readonly summary: string;
  readonly figures: { readonly value: number; readonly threshold: number } | null;
}

/** The text of a document. */
interface Episode extends Firing, AlertText {
  /** How often it was posted. */
  readonly posts: number;
  readonly endedAt: number | null;
}

type StoredEpisode = StoredDocument & { readonly episode: Episode };

/** What one node of a fleet sees. */
interface NodeView {
  readonly at: number;
  readonly ended: number;
  readonly dead: number;
  /** Null: nothing is late. */
  readonly oldestDueAt: number | null;
  readonly clockRefusedAt: number | null;
  readonly clockReason: string;
}

export class Alerts {
  readonly #options: ResolvedAlerts;
  readonly #source: AlertSource;
  readonly #ended: EndedWindow;
  readonly #startedAt: number;
  /** Changes of breakers that are not written yet, by document. */
  readonly #changes = new Map<string, Condition>();
  #writing: Promise<void> = Promise.resolve();
  #checking: Promise<void> | undefined;
  #clockRefused: { readonly at: number; readonly reason: string } | undefined;
  #reportVersion = 0;
  #stopListening: () => void = () => {};
  #cancel: Cancel | undefined;

  constructor(options: ResolvedAlerts, source: AlertSource) {
    this.#options = options;
    this.#source = source;
    this.#ended = new EndedWindow(options.windowMs);
    this.#startedAt = source.now();
  }

  start(): void {
    this.#stopListening = this.#source.onEvent((event) => this.#onEvent(event));
    this.#arm();
  }

  stop(): void {
    this.#stopListening();
    this.#cancel?.();
  }

  get options(): ResolvedAlerts {
    return this.#options;
  }

  /** The destination of the tasks that post alerts. */
  get destination(): string {
    return ALERT_DESTINATION;
  }

  /** The episodes of the whole fleet that are not over, the oldest first. */
  async firing(): Promise<readonly Firing[]> {
    const all = await this.#episodes();
    const firing = all.map(({ episode }) => episode).filter(({ endedAt }) => endedAt === null);
    return firing.toSorted((one, other) => one.since - other.since);
  }

  /** Posts a test alert; returns the id of its task once the task is stored. */
  async test(): Promise<string> {
    const now = this.#source.now();
    const summary = "This is a test: alerts arrive here.";
    const place = { kind: "test", since: now, tenantId: null, destination: null } as const;
    const task = this.#taskOf("test", place, { summary, figures: null, number: 0 });
    await this.#source.create(task);
    return task.taskId;
  }

  #arm(): void {
    this.#cancel = this.#source.clock.alarm(
      CHECK_MS,
      () => {
        this.#arm();
        void this.check();
      },
      true,
    );
  }

  /** Checks rates, lateness and due posts, never twice at once. A failure is tried again at the next one. */
  check(): Promise<void> {
    this.#checking ??= this.#check()
      .catch(() => undefined)
      .finally(() => {
        this.#checking = undefined;
      });
    return this.#checking;
  }

  async #check(): Promise<void> {
    await this.#writeChanges();
    const now = this.#source.now();
    const views = await this.#views(now);
    for (const condition of this.#conditionsOf(views, now)) await this.#apply(condition);
    const episodes = await this.#episodes();
    const circuits = await this.#changedCircuits(episodes, now);
    for (const condition of circuits) await this.#apply(condition);
    for (const stored of circuits.length > 0 ? await this.#episodes() : episodes)
      await this.#tend(stored, now);
  }

  #onEvent(event: EngineEvent): void {
    const { type, at, tenantId, destination, labels, reason } = event;
    if (type === "task.succeeded" || type === "task.exhausted") {
      if (!isInternalAlert(labels)) this.#ended.record(at, type === "task.exhausted");
    } else if (type === "breaker.opened" || type === "breaker.closed") {
      if (destination === ALERT_DESTINATION) return;
      if (destination === undefined || tenantId === undefined) return;
      this.#change(circuitCondition(type === "breaker.opened", at, tenantId, destination));
    } else if (type === "clock.refused") {
      this.#clockRefused ??= { at, reason: reason ?? "it moved too far" };
      void this.check();
    } else if (type === "clock.synced" && this.#clockRefused !== undefined) {
      this.#clockRefused = undefined;
      void this.check();
    }
  }

  /** Written at once, in order. What the store cannot take is tried again at the next check. */
  #change(condition: Condition): void {
    this.#changes.set(idOf(condition), condition);
    this.#writing = this.#writing.then(() => this.#writeChanges()).catch(() => undefined);
  }

  async #writeChanges(): Promise<void> {
    for (const [id, condition] of this.#changes) {
      await this.#apply(condition);
      if (this.#changes.get(id) === condition) this.#changes.delete(id);
    }
  }

  /** Begins an episode, or ends it. Another node may do the same: only one of them writes it. */
  async #apply(condition: Condition): Promise<void> {
    const { documents } = this.#source;
    const stored = episodeOf(await documents.get(EPISODE_KIND, DEFAULT_TENANT, idOf(condition)));
    const isFiring = stored !== undefined && stored.episode.endedAt === null;
    if (condition.isOn && !isFiring) await this.#begin(condition, stored?.version ?? 0);
    else if (!condition.isOn && isFiring) await this.#end(stored, condition);
  }

  async #begin(condition: Condition, version: number): Promise<void> {
    const { kind, at, tenantId, destination, summary, figures } = condition;
    if (version === 0 && (await this.firing()).length >= MAX_FIRING) return;
    const place = { kind, since: at, tenantId, destination };
    const episode: Episode = { ...place, summary, figures, posts: 0, endedAt: null };
    const stored = this.#documentOf(episode, version + 1);
    if (await this.#source.documents.put(stored)) await this.#tend(stored, at);
  }

  async #end(stored: StoredEpisode, { at, summary, figures }: Condition): Promise<void> {
    const { episode, version } = stored;
    const text = { summary, figures, number: 0 };
    // The task comes first: its key makes it unique, and an episode that is over posts nothing.
    await this.#source.create(this.#taskOf("resolved", episode, text));
    await this.#source.documents.put(this.#documentOf({ ...episode, endedAt: at }, version + 1));
  }

  /** Posts an episode that is due, also for a node that died before it did, and forgets an old one. */
  async #tend(stored: StoredEpisode, now: number): Promise<void> {
    const { episode, version, id } = stored;
    const { documents, create } = this.#source;
    const { since, endedAt, posts, summary, figures } = episode;
    if (endedAt !== null) {
      if (now - endedAt > FORGET_MS) await documents.remove(EPISODE_KIND, DEFAULT_TENANT, id);
      return;
    }
    const due = 1 + Math.floor(Math.max(0, now - since) / this.#options.repeatMs);
    if (posts >= due) return;
    await create(this.#taskOf("firing", episode, { summary, figures, number: due }));
    await documents.put(this.#documentOf({ ...episode, posts: due }, version + 1));
  }

  #documentOf(episode: Episode, version: number): StoredEpisode {
    const id = idOf(episode);
    const text = JSON.stringify(episode);
    return { kind: EPISODE_KIND, tenantId: DEFAULT_TENANT, id, version, text, episode };
  }

  async #episodes(): Promise<readonly StoredEpisode[]> {
    const all = await this.#documents(EPISODE_KIND);
    return all.flatMap((document) => episodeOf(document) ?? []);
  }

  async #documents(kind: string): Promise<readonly StoredDocument[]> {
    const all: StoredDocument[] = [];
    let cursor: string | null | undefined;
    while (cursor !== null) {
      const page = await this.#source.documents.list(kind, { limit: PAGE, cursor });
      all.push(...page.documents);
      cursor = page.cursor;
    }
    return all;
  }

  /** What the nodes see, this one included. */
  async #views(now: number): Promise<readonly NodeView[]> {
    const own = this.#ownView(now);
    if (this.#source.exclusive) return [own];
    await this.#report(own);
    const { nodeId, documents } = this.#source;
    const views = [own];
    for (const { id, text } of await this.#documents(REPORT_KIND)) {
      const view = parseStored(text) as NodeView | null;
      if (id === nodeId || view === null) continue;
      if (now - view.at <= REPORT_MS) views.push(view);
      else if (now - view.at > FORGET_MS) await documents.remove(REPORT_KIND, DEFAULT_TENANT, id);
    }
    return views;
  }

  #ownView(now: number): NodeView {
    const oldest = this.#source.oldestDueAt();
    return {
      at: now,
      ...this.#ended.counts(now),
      oldestDueAt: Number.isFinite(oldest) ? oldest : null,
      clockRefusedAt: this.#clockRefused?.at ?? null,
      clockReason: this.#clockRefused?.reason ?? "",
    };
  }

  async #report(view: NodeView): Promise<void> {
    const { nodeId: id, documents } = this.#source;
    const place = { kind: REPORT_KIND, tenantId: DEFAULT_TENANT, id };
    const write = () =>
      documents.put({ ...place, version: this.#reportVersion + 1, text: JSON.stringify(view) });
    if (!(await write())) {
      // A write whose response was lost.
      const stored = await documents.get(REPORT_KIND, DEFAULT_TENANT, id);
      this.#reportVersion = stored?.version ?? 0;
      if (!(await write())) return;
    }
    this.#reportVersion++;
  }

  #conditionsOf(views: readonly NodeView[], now: number): readonly Condition[] {
    const { deadLetterRatio, minDeadLetters, windowMs, lateMs } = this.#options;
    const ended = sum(views.map((view) => view.ended));
    const dead = sum(views.map((view) => view.dead));
    const isSurge = dead >= minDeadLetters && dead > ended * deadLetterRatio;
    const oldest = Math.min(...views.map((view) => view.oldestDueAt ?? Number.POSITIVE_INFINITY));
    const isLateMs = Math.max(0, now - oldest);
    const refused = views.find((view) => view.clockRefusedAt !== null);
    const deadLetters: Condition = {
      ...{ kind: "dead-letters", ...EVERYWHERE },
      isOn: isSurge,
      at: now,
      summary: `${dead} of ${ended} tasks that ended in the last ${formatDuration(windowMs)} became dead letters.`,
      figures: { value: ended === 0 ? 0 : dead / ended, threshold: deadLetterRatio },
    };
    // A process that has just started has not seen the window.
    const knowsWindow = isSurge || now - this.#startedAt >= windowMs;
    return [
      ...(knowsWindow ? [deadLetters] : []),
      {
        ...{ kind: "late-tasks", ...EVERYWHERE },
        isOn: isLateMs > lateMs,
        at: now,
        summary:
          isLateMs > lateMs
            ? `The oldest due task waits for ${formatDuration(isLateMs)}, although no pause, Retry-After or open breaker holds it.`
            : "No task is late.",
        figures: { value: isLateMs, threshold: lateMs },
      },
      {
        ...{ kind: "clock-refused", ...EVERYWHERE, figures: null },
        isOn: refused !== undefined,
        at: refused?.clockRefusedAt ?? now,
        summary: refused
          ? `The clock was refused: ${refused.clockReason}.`
          : "The clock is right again.",
      },
    ];
  }

  /** Circuits that closed while nobody could write it, and open ones that nobody has reported. */
  async #changedCircuits(
    episodes: readonly StoredEpisode[],
    now: number,
  ): Promise<readonly Condition[]> {
    const firing = episodes.flatMap(({ episode }) =>
      episode.kind === "breaker-open" && episode.endedAt === null ? [episode] : [],
    );
    const changed: Condition[] = [];
    const tenants = new Set([DEFAULT_TENANT, ...firing.flatMap(({ tenantId }) => tenantId ?? [])]);
    for (const tenantId of tenants) {
      const rows = await this.#source.openCircuits(tenantId, MAX_FIRING);
      const open = new Set(rows.map(({ name }) => name));
      const known = firing.filter((episode) => episode.tenantId === tenantId);
      const names = new Set(known.map(({ destination }) => destination ?? ""));
      if (rows.length < MAX_FIRING) {
        const closed = [...names].filter((name) => !open.has(name));
        changed.push(...closed.map((name) => circuitCondition(false, now, tenantId, name)));
      }
      const missed = [...open].filter((name) => !names.has(name) && name !== ALERT_DESTINATION);
      changed.push(...missed.map((name) => circuitCondition(true, now, tenantId, name)));
    }
    return changed;
  }

  #taskOf(
    state: "firing" | "resolved" | "test",
    { kind, since, tenantId, destination }: Omit<Firing, "kind"> & { readonly kind: string },
    { summary, figures, number }: AlertText & { readonly number: number },
  ): NewTask {
    const { url, runbookUrl } = this.#options;
    const now = this.#source.now();
    const episode = `${kind}-${placeOf(tenantId, destination)}-${since}`;
    const body = {
      ...{ type: `alert.${state}`, alert: kind, episode, summary, since, at: now },
      ...{ tenantId, destination, ...figures, runbook: `${runbookUrl}#${kind}` },
    };
    const subject = number > 1 ? `${episode}-${state}-${number}` : `${episode}-${state}`;
    const report = { kind: "alert", subject, tenantId: DEFAULT_TENANT, url, body, now } as const;
    const task = internalTask(report, this.#source.newTaskId(now, `alert-${subject}`));
    return { ...task, destination: ALERT_DESTINATION };
  }
}

function circuitCondition(
  isOn: boolean,
  at: number,
  tenantId: string,
  destination: string,
): Condition {
  const summary = isOn
    ? `The breaker of ${destination} is open: its tasks wait.`
    : `The breaker of ${destination} is closed.`;
  return { kind: "breaker-open", tenantId, destination, isOn, at, summary, figures: null };
}

/** Of alerts about the whole service. */
const EVERYWHERE = { tenantId: null, destination: null } as const;

/** The id of the document. A name of a destination may be longer than an id. */
function idOf({ kind, tenantId, destination }: Subject): string {
  return destination === null ? kind : `${kind}-${placeOf(tenantId, destination)}`;
}

function placeOf(tenantId: string | null, destination: string | null): string {
  return sha256([JSON.stringify([tenantId, destination])]).slice(0, PLACE_DIGITS);
}

/** Undefined for what another version has written in another form. */
function episodeOf(document: StoredDocument | null): StoredEpisode | undefined {
  const episode = document && (parseStored(document.text) as Episode | null);
  return document && episode ? { ...document, episode } : undefined;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** The window moves in steps of a thirtieth of its length. */
const STEPS = 30;

/** Counts the tasks that ended in a sliding window, and the dead letters among them. */
export class EndedWindow {
  readonly #stepMs: number;
  readonly #ended = new Array<number>(STEPS).fill(0);
  readonly #dead = new Array<number>(STEPS).fill(0);
  /** The number of the newest step. */
  #step = 0;

  constructor(windowMs: number) {
    this.#stepMs = windowMs / STEPS;
  }

  record(now: number, isDead: boolean): void {
    const at = this.#advance(now) % STEPS;
    this.#ended[at] = (this.#ended[at] ?? 0) + 1;
    if (isDead) this.#dead[at] = (this.#dead[at] ?? 0) + 1;
  }

  counts(now: number): { readonly ended: number; readonly dead: number } {
    this.#advance(now);
    return { ended: sum(this.#ended), dead: sum(this.#dead) };
  }

  /** Clears the steps that have left the window. A time before the newest step counts there. */
  #advance(now: number): number {
    const step = Math.floor(now / this.#stepMs);
    const from = Math.max(this.#step + 1, step - STEPS + 1);
    for (let passed = from; passed <= step; passed++) {
      this.#ended[passed % STEPS] = 0;
      this.#dead[passed % STEPS] = 0;
    }
    this.#step = Math.max(this.#step, step);
    return this.#step;
  }
}

interface AlertParts {
  readonly clock: Clock;
  readonly engine: Engine;
  readonly newId: NewId;
  readonly store: Pick<Store, "documents" | "exclusive" | "openCircuits">;
}

/** Connects the alerts with the engine that they watch and the intake that stores them. */
export function startAlerts(
  options: ResolvedAlerts,
  { clock, engine, newId, store }: AlertParts,
  intake: Pick<TaskIntake, "create">,
): Alerts {
  const { documents, exclusive } = store;
  const alerts = new Alerts(options, {
    clock,
    documents,
    exclusive,
    nodeId: engine.nodeId,
    now: () => engine.now(),
    onEvent: (listener) => engine.events.listen(listener),
    oldestDueAt: () => engine.destinations.oldestDueAt,
    openCircuits: (tenantId, limit) => store.openCircuits(tenantId, limit),
    newTaskId: (now, key) => newId(now, engine.partitionByte(DEFAULT_TENANT, key)),
    // The key says everything about the alert, so it is its own fingerprint.
    create: (task) => intake.create(task, task.idempotencyKey),
  });
  alerts.start();
  return alerts;
}

// Alert options: where alerts are posted, and when they fire.

export interface AlertOptions {
  /** Each alert is posted there, by a task of the tenant `default`. */
  readonly url: string;
  /** Dead letters per ended task, above which an alert fires. 0 to 1. Default: 0.01. */
  readonly deadLetterRatio?: number;
  /** With fewer dead letters in the window, none fires. 1 to 1,000,000. Default: 10. */
  readonly minDeadLetters?: number;
  /** The time over which dead letters are counted. 10 seconds to 1 day. Default: 5 minutes. */
  readonly windowMs?: number;
  /** How late the oldest due task may be. 1 second to 1 day. Default: 60 seconds. */
  readonly lateMs?: number;
  /** How often an alert is posted again while it fires. 1 minute to 7 days. Default: 1 hour. */
  readonly repeatMs?: number;
  /** The address of your copy of the runbook. Default: `docs/runbook.md` of this project. */
  readonly runbookUrl?: string;
}

const DAY_MS = 86_400_000;

const urlRule = textRule(/^https?:\/\/[^\s]{1,2000}$/u, "an http(s) URL");

const FIELDS: Fields & Readonly<Record<keyof AlertOptions, unknown>> = {
  url: urlRule,
  deadLetterRatio: numberRule(0, 1, true),
  minDeadLetters: numberRule(1, 1_000_000),
  windowMs: numberRule(10_000, DAY_MS),
  lateMs: numberRule(1000, DAY_MS),
  repeatMs: numberRule(60_000, 7 * DAY_MS),
  runbookUrl: textRule(/^[^\s]{1,2000}$/u, "an address"),
};

/** All problems of the options. */
export function checkAlerts(options: unknown): readonly FieldProblem[] {
  const problems = checkFields(options, FIELDS, "alerts.");
  if (problems.length > 0 || (options as Partial<AlertOptions>).url !== undefined) return problems;
  return [{ field: "alerts.url", value: undefined, message: "alerts.url is required" }];
}

export type ResolvedAlerts = Required<AlertOptions>;

export function resolveAlerts(options: AlertOptions): ResolvedAlerts {
  return {
    deadLetterRatio: 0.01,
    minDeadLetters: 10,
    windowMs: 300_000,
    lateMs: 60_000,
    repeatMs: 3_600_000,
    runbookUrl: "docs/runbook.md",
    ...options,
  };
}
