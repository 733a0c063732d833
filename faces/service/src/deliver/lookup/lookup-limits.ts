/**
 * Lookup limits: bounds the lookups that run at once, of one tenant and in all. Callers that ask
 * for a name whose lookup runs share it. Above the limit, a lookup waits for a short time; the
 * tenants take turns, so slow names of one tenant do not delay the lookups of another.
 */
import type { Cancel, Clock } from "@redrive/core";
import { LookupError } from "./lookup-error.ts";
import type { Lookup, Resolver } from "./resolver.ts";

export interface LookupLimits {
  /** Lookups of one tenant at once. */
  readonly perTenant: number;
  /** Lookups of all tenants at once. */
  readonly inAll: number;
}

type Answer = ReturnType<Lookup>;

/** Waiting names of one tenant. */
export const MAX_WAITING_NAMES = 1000;

/** Shorter than a usual connect timeout, so that the error names the limit. */
export const MAX_WAIT_MS = 2000;

export function limitLookups(clock: Clock, lookup: Lookup, limits: LookupLimits): Resolver {
  const queue = new LookupQueue(clock, lookup, limits);
  return (name, tenantId) => queue.resolve(name, tenantId);
}

interface Waiting {
  readonly answer: Answer;
  readonly settle: (answer: Answer) => void;
  readonly cancelAlarm: Cancel;
}

/** Exists only while the tenant has a lookup. */
interface Tenant {
  readonly tenantId: string;
  running: number;
  /** By name, in order of arrival. */
  readonly waiting: Map<string, Waiting>;
}

class LookupQueue {
  readonly #clock: Clock;
  readonly #lookup: Lookup;
  readonly #limits: LookupLimits;

  // Mutable state.
  /** By name. */
  readonly #running = new Map<string, Answer>();
  /** By id. The tenant that was served least recently comes first. */
  readonly #tenants = new Map<string, Tenant>();

  constructor(clock: Clock, lookup: Lookup, limits: LookupLimits) {
    this.#clock = clock;
    this.#lookup = lookup;
    this.#limits = limits;
  }

  resolve(name: string, tenantId: string): Answer {
    const tenant = this.#tenants.get(tenantId) ?? { tenantId, running: 0, waiting: new Map() };
    const shared = this.#running.get(name) ?? tenant.waiting.get(name)?.answer;
    if (shared !== undefined) return shared;
    if (this.#hasRoom(tenant)) return this.#start(name, tenant);
    if (tenant.waiting.size >= MAX_WAITING_NAMES) return Promise.reject(tooMany());
    return this.#wait(name, tenant);
  }

  #hasRoom({ running }: Tenant): boolean {
    return running < this.#limits.perTenant && this.#running.size < this.#limits.inAll;
  }

  #start(name: string, tenant: Tenant): Answer {
    this.#moveToEnd(tenant);
    tenant.running++;
    const answer = this.#lookup(name).finally(() => {
      tenant.running--;
      this.#running.delete(name);
      this.#forgetIfIdle(tenant);
      this.#startWaiting();
    });
    this.#running.set(name, answer);
    return answer;
  }

  #wait(name: string, tenant: Tenant): Answer {
    let settle: Waiting["settle"] = () => {};
    const answer: Answer = new Promise((resolve) => {
      settle = resolve;
    });
    const giveUp = () => {
      tenant.waiting.delete(name);
      this.#forgetIfIdle(tenant);
      settle(Promise.reject(tooMany()));
    };
    const cancelAlarm = this.#clock.alarm(MAX_WAIT_MS, giveUp, true);
    tenant.waiting.set(name, { answer, settle, cancelAlarm });
    this.#tenants.set(tenant.tenantId, tenant);
    return answer;
  }

  #startWaiting(): void {
    let tenant = this.#nextTenant();
    while (tenant !== undefined) {
      const [entry] = tenant.waiting;
      if (entry === undefined) return;
      const [name, { settle, cancelAlarm }] = entry;
      tenant.waiting.delete(name);
      cancelAlarm();
      settle(this.#running.get(name) ?? this.#start(name, tenant));
      tenant = this.#nextTenant();
    }
  }

  #nextTenant(): Tenant | undefined {
    for (const tenant of this.#tenants.values()) {
      if (tenant.waiting.size > 0 && this.#hasRoom(tenant)) return tenant;
    }
    return undefined;
  }

  #moveToEnd(tenant: Tenant): void {
    this.#tenants.delete(tenant.tenantId);
    this.#tenants.set(tenant.tenantId, tenant);
  }

  #forgetIfIdle({ tenantId, running, waiting }: Tenant): void {
    if (running === 0 && waiting.size === 0) this.#tenants.delete(tenantId);
  }
}

function tooMany(): LookupError {
  return new LookupError("TOO_MANY_LOOKUPS");
}
