/**
 * Servers: one PostgreSQL and two Redis servers for all contenders. Each contender has its own database,
 * and each that uses Redis its own server, so that none sees the data of another.
 */
import { readdirSync, readFileSync } from "node:fs";
import { Redis } from "ioredis";
import pg from "pg";
import { startPostgres } from "../../test/servers/postgres.ts";
import { startRedis } from "../../test/servers/redis.ts";
import { POSTGRES_SETTINGS, REDIS_SETTINGS } from "./settings.mjs";

/** @typedef {"postgres" | "redis" | "none"} Kind */
/** @typedef {{ url: string, cpuMs: () => Promise<number> }} Server */

const TICK_MS = 10;

/** Starts servers as contenders need them. */
export class Servers {
  /** @type {(() => Promise<unknown>)[]} */
  #stops = [];
  /** @type {{ url: string, client: pg.Client } | undefined} */
  #postgres;
  #databases = 0;

  /** An empty store. `cpuMs`: how much CPU time its server has used. @param {Kind} kind @returns {Promise<Server>} */
  async add(kind) {
    if (kind === "none") return { url: "none", cpuMs: async () => 0 };
    if (kind === "redis") return this.#addRedis();
    const { url, client } = await this.#startPostgres();
    const name = `bench${++this.#databases}`;
    await client.query(`CREATE DATABASE ${name}`);
    const { rows } = await client.query("SELECT pg_backend_pid() AS pid");
    const main = statOf(rows[0].pid)[3] ?? 0;
    return { url: url.replace(/postgres$/u, name), cpuMs: async () => familyMs(main) };
  }

  /** @returns {Promise<Server>} */
  async #addRedis() {
    const { url, stop } = await startRedis(REDIS_SETTINGS);
    const client = new Redis(url);
    this.#stops.push(async () => client.disconnect(), stop);
    return {
      url,
      async cpuMs() {
        const info = await client.info("cpu");
        const times = [...info.matchAll(/^used_cpu_(?:sys|user):(.*?)\r?$/gmu)];
        return times.reduce((sum, [, seconds]) => sum + 1000 * Number(seconds), 0);
      },
    };
  }

  async #startPostgres() {
    if (this.#postgres !== undefined) return this.#postgres;
    const { url, stop } = await startPostgres(POSTGRES_SETTINGS);
    this.#stops.push(stop);
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => {});
    await client.connect();
    this.#postgres = { url, client };
    return this.#postgres;
  }

  /** Writes what earlier measurements have left, so that the next one does not pay for it. */
  async settle() {
    await this.#postgres?.client.query("CHECKPOINT");
  }

  /** Vacuums and analyzes a database of the PostgreSQL server. @param {string} url */
  async vacuum(url) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query("VACUUM (ANALYZE)");
    await client.query("CHECKPOINT");
    await client.end();
  }

  async version() {
    const result = await this.#postgres?.client.query("SHOW server_version");
    return String(result?.rows[0]?.server_version ?? "");
  }

  async stop() {
    await this.#postgres?.client.end();
    for (const stop of this.#stops) await stop();
  }
}

/** The fields of `/proc/PID/stat`, from 0; those that are texts are NaN. @param {number} pid */
function statOf(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  return [
    pid,
    Number.NaN,
    ...text
      .slice(text.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number),
  ];
}

/** CPU time of a process and its children, also of those that have ended. @param {number} main */
function familyMs(main) {
  const [, , , , , , , , , , , , , , , endedUser = 0, endedSystem = 0] = statOf(main);
  let cpuMs = (endedUser + endedSystem) * TICK_MS + runMs(main);
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/u.test(name)) continue;
    try {
      if (statOf(Number(name))[3] === main) cpuMs += runMs(Number(name));
    } catch {
      // It has ended.
    }
  }
  return cpuMs;
}

/** @param {number} pid */
function runMs(pid) {
  return Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
}
