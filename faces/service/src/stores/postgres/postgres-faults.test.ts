/** Tests what a PostgreSQL store must survive: lost connections, crashes, and writers that meet. */
// needs: postgres
import { setTimeout as sleep } from "node:timers/promises";
import { seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { Batch } from "../../model/batch.ts";
import { blankDestination } from "../../model/destination-row.ts";
import type { WakeUp } from "../../model/lane-due.ts";
import type { Store } from "../../model/store.ts";
import { StoreRefusedError } from "../../model/store-errors.ts";
import { interruptedConformance } from "../conformance-interrupted.testing.ts";
import {
  batch,
  claimFirst,
  claimOf,
  create,
  DESTINATION,
  destinationReport,
  report,
  settle,
  T0,
  TENANT,
} from "../store.testing.ts";
import { testServer } from "./postgres-server.testing.ts";
import { postgresStore } from "./postgres-store.ts";
import { SCHEMA_VERSION } from "./schema/migrations.ts";

const server = testServer();

/** Two nodes on one database, each with its own connections. */
async function twoStores(): Promise<readonly [Store, Store]> {
  const url = await server.nextUrl();
  return [await postgresStore(url), await postgresStore(url)];
}

const terminateAll = () =>
  server.run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'redrive' AND pid <> pg_backend_pid()`);

/** Repeats a call until it succeeds. */
async function eventually<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await call();
    } catch (error) {
      if (tries > 200) throw error;
      await sleep(50);
    }
  }
}

/** It has no id: the server refuses it after every other item of the batch was written. */
const REFUSED = {
  kind: "refused",
  tenantId: TENANT,
  id: null,
  text: "",
} as unknown as Batch["documents"][number];

const random = seededRandom("interrupted");

interruptedConformance("PostgreSQL", 12, async (round) => {
  const store = await server.nextStore();
  const interrupt = async (part: Batch) => {
    if (round === 0) {
      const refused = store.commit({ ...part, documents: [REFUSED] });
      await expect(refused).rejects.toThrow(StoreRefusedError);
      return;
    }
    const committed = store.commit(part).catch(() => {});
    await sleep(Math.floor(random.next() * 8));
    await terminateAll();
    await committed;
    // The pool may not know yet that a free connection was cut, and its next statement fails.
    await eventually(() => store.clock());
  };
  return { store, interrupt };
});

describe("two PostgreSQL stores", () => {
  it("claim no task twice, and never report that they met", async () => {
    const [one, two] = await twoStores();
    const tasks = Array.from({ length: 300 }, (_, n) => create({ destination: `d${n % 3}` }));
    await one.commit(batch({ creates: tasks.slice(0, 150) }));
    await two.commit(batch({ creates: tasks.slice(150) }));
    const claimed = new Map<string, number>();
    const ids = tasks.map(({ task }) => task);
    const work = async (store: Store, nodeId: string, seed: string) => {
      const draw = seededRandom(seed);
      const pick = () => ids[Math.floor(draw.next() * ids.length)]!;
      let held: Batch["settles"] = [];
      for (let round = 0; round < 40; round++) {
        const { claims } = await store.commit(
          batch({
            nodeId,
            now: T0 + round,
            settles: held,
            cancels: [pick(), pick()],
            retryNows: [pick(), pick(), pick()],
            claims: ["d0", "d1", "d2"].map((destination) => claimOf("first", { destination })),
            documents: ["a", "b"].map((id) => ({ kind: "k", tenantId: TENANT, id, text: seed })),
          }),
        );
        const found = claims.flatMap((claim) => claim.tasks);
        for (const { taskId, claimEpoch } of found) {
          const key = `${taskId} ${claimEpoch}`;
          claimed.set(key, (claimed.get(key) ?? 0) + 1);
        }
        held = found.map((task) => settle(task, { lane: "first", nextAttemptAt: T0 + round }));
      }
    };
    await Promise.all([work(one, "node-1", "one"), work(two, "node-2", "two")]);
    expect(claimed.size).toBeGreaterThan(0);
    expect([...claimed.values()].filter((count) => count > 1)).toEqual([]);
    await Promise.all([one.close(), two.close()]);
  });

  it("create one task for a key that both use at the same time", async () => {
    const stores = await twoStores();
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`);
    const commits = stores.map((store, at) => {
      const order = at === 0 ? keys : keys.toReversed();
      const creates = order.map((idempotencyKey) =>
        create({ idempotencyKey }, { fingerprint: "f" }),
      );
      return store.commit(batch({ nodeId: `node-${at}`, creates }));
    });
    const kinds = (await Promise.all(commits)).flatMap(({ creates }) =>
      creates.map(({ kind }) => kind),
    );
    expect(kinds.filter((kind) => kind === "created")).toHaveLength(keys.length);
    expect(kinds.filter((kind) => kind === "replayed")).toHaveLength(keys.length);
    await Promise.all(stores.map((store) => store.close()));
  });

  it("never grant more than a limit together", async () => {
    const stores = await twoStores();
    const granted = await Promise.all(
      Array.from({ length: 20 }, async (_, n) => {
        const slots = { limit: 10, wanted: 3, used: 0 };
        const destinations = [
          destinationReport({ slots }),
          destinationReport({ name: "b", slots }),
        ];
        const ordered = n % 2 === 0 ? destinations : destinations.toReversed();
        const node = report(`node-${n}`, { destinations: ordered });
        const renewal = await stores[n % 2]!.renew(node);
        return renewal.destinations.map((share) => share.slots);
      }),
    );
    const sum = granted.flat().reduce((total, one) => total + one, 0);
    expect(sum).toBe(20);
    await Promise.all(stores.map((store) => store.close()));
  });

  it("migrate one database at the same time, and share it afterward", async () => {
    const url = await server.nextUrl();
    const stores = await Promise.all(Array.from({ length: 4 }, () => postgresStore(url)));
    await stores[0]!.commit(batch({ creates: [create()] }));
    expect(await claimFirst(stores[3]!)).toHaveLength(1);
    await Promise.all(stores.map((store) => store.close()));
  });

  it("wake each other up, and say that messages may be lost if there are too many lanes", async () => {
    const [one, two] = await twoStores();
    const heard: WakeUp[] = [];
    two.onWakeUp((wakeUp) => heard.push(wakeUp)).follow([3]);
    const lane = { tenantId: TENANT, destination: DESTINATION, lane: "first", dueAt: T0 } as const;
    const due = { ...lane, partition: 3 };
    const isTold = async () => {
      await one.commit(batch({ wakeUps: [due] }));
      return heard.length > 0;
    };
    await expect.poll(isTold).toBe(true);
    expect(heard[0]).toEqual([due]);
    const many = Array.from({ length: 200 }, (_, n) => ({ ...due, destination: `d${n}` }));
    await one.commit(batch({ wakeUps: many }));
    await expect.poll(() => heard.at(-1)).toEqual("lost");
    await Promise.all([one.close(), two.close()]);
  });
});

describe("a PostgreSQL store refuses a server", () => {
  const refusal = async (url: string): Promise<string> => {
    const error: unknown = await postgresStore(url).catch((one: unknown) => one);
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
    return (error as Error).message;
  };
  const withSetting = async (setting: string) =>
    `${await server.nextUrl()}&options=${encodeURIComponent(`-c ${setting}`)}`;

  it.each(["repeatable read", "serializable", "read uncommitted"])(
    "whose transactions are %s by default, because a claim could miss a pause",
    async (level) => {
      const escaped = level.replace(" ", "\\ ");
      const message = await refusal(await withSetting(`default_transaction_isolation=${escaped}`));
      expect(message).toMatch(new RegExp(`default_transaction_isolation is ${level}.*ALTER ROLE`));
    },
  );

  it("that is read-only by default", async () => {
    const message = await refusal(await withSetting("default_transaction_read_only=on"));
    expect(message).toContain("default_transaction_read_only is on");
  });

  it("without fsync, unless that loss is accepted", async () => {
    const relaxed = await server.nextUrl();
    const strict = relaxed.replace("&durability=relaxed", "");
    expect(await refusal(strict)).toMatch(/fsync is off.*durability=relaxed/);
    expect(await refusal(`${strict}&durability=maybe`)).toContain('got "maybe"');
    await (await postgresStore(relaxed)).close();
  });
});

describe("the channels of wake-ups", () => {
  it("take what anybody writes to them as a wake-up without content", async () => {
    const url = await server.nextUrl();
    const schema = new URL(url).searchParams.get("schema");
    const store = await postgresStore(url);
    const heard: WakeUp[] = [];
    store.onWakeUp((wakeUp) => heard.push(wakeUp)).follow([1]);
    const garbage = [
      ["x", "[1]", "{", "null", '"text"', "[[]]", '[{"tenantId":"t"}]', "[{}]", "1e999"],
      [
        `[${'{"tenantId":"t","destination":"d","lane":"third","partition":1,"dueAt":1},'.repeat(3)}1]`,
      ],
      ['[{"tenantId":"t","destination":"d","lane":"first","partition":-1,"dueAt":1}]'],
      ['[{"tenantId":"t","destination":"d","lane":"first","partition":1,"dueAt":"soon"}]'],
      ["\ud800", "[".repeat(5000)],
    ].flat();
    // NOTIFY needs no rights on the schema. What comes before LISTEN is not heard.
    const tell = (channel: string, text: string) =>
      server.run("SELECT pg_notify($1, $2)", [`${schema}_${channel}`, text]);
    const isHeard = async () => {
      await tell("wake_1", "");
      return heard.length > 0;
    };
    await expect.poll(isHeard).toBe(true);
    for (const text of garbage) await tell("wake_1", text);
    for (const text of garbage) await tell("nodes", text);
    const unreadable = () => heard.filter((wakeUp) => wakeUp === "unreadable").length;
    await expect.poll(unreadable).toBe(2 * garbage.length);
    expect(heard.every((wakeUp) => wakeUp === "lost" || wakeUp === "unreadable")).toBe(true);
    await store.close();
  });
});

describe("a PostgreSQL store", () => {
  it("refuses a schema of a newer version", async () => {
    const url = await server.nextUrl();
    await (await postgresStore(url)).close();
    const schema = new URL(url).searchParams.get("schema");
    await server.run(`UPDATE ${schema}.schema_version SET version = 999, oldest = 999`);
    await expect(postgresStore(url)).rejects.toThrow(/newer Redrive \(schema 999/);
  });

  it.each([
    "postgres://",
    "mysql://x/y",
    "postgres://localhost/x?schema=A-b",
    "postgres://localhost/x?schema=pg_catalog",
  ])("refuses the address %s", async (url) => {
    await expect(postgresStore(url)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  it("keeps every text, also with NUL and half a surrogate pair", async () => {
    const store = await server.nextStore();
    const text = "a\0b\u0001c\u00010\u00011\n\"\\u0000'";
    const { task } = create({
      idempotencyKey: text,
      destination: text,
      headers: { [text]: text },
      labels: { [text]: text },
    });
    const fresh = { task, fingerprint: text, claimVersion: 0 };
    const { creates } = await store.commit(batch({ creates: [fresh] }));
    expect(creates[0]).toMatchObject({ kind: "created", started: task });
    expect(await store.query.get(TENANT, task.taskId)).toMatchObject(task);
    const again = await store.commit(batch({ creates: [fresh] }));
    expect(again.creates).toEqual([{ kind: "replayed", taskId: task.taskId }]);
    const filters = [
      { destination: text },
      { idempotencyKey: text },
      { label: { name: text, value: text } },
    ];
    for (const filter of filters) {
      expect((await store.query.list(TENANT, filter, { limit: 9 })).tasks).toHaveLength(1);
    }
    const half = create({ labels: { half: "x\ud800y" }, destination: "x\ud800y" });
    await store.commit(batch({ creates: [half] }));
    const found = await store.query.get(TENANT, half.task.taskId);
    expect(found?.destination.slice(0, 1)).toBe("x");
    await store.close();
  });

  it("reports an item that it refuses, and does nothing of the batch", async () => {
    const store = await server.nextStore();
    const bad = create({ scheduledAt: 0.5 });
    const commit = store.commit(batch({ creates: [create(), bad] }));
    await expect(commit).rejects.toBeInstanceOf(StoreRefusedError);
    expect(await store.query.count(TENANT)).toEqual({});
    await store.close();
  });

  it("makes commits durable although the server's default is not", async () => {
    const store = await server.nextStore();
    const [row] = await server.run(`SELECT current_setting('synchronous_commit') AS before,
      set_config('synchronous_commit', 'off', false), nspname FROM pg_namespace
      WHERE nspname ~ '^test_[0-9]+$' LIMIT 1`);
    await server.run("BEGIN");
    await server.run(`SELECT ${row!["nspname"]}_v${SCHEMA_VERSION}.commit_batch(1, NULL, 1, 'n', NULL, 0,
      NULL, NULL, NULL, NULL, NULL, NULL, NULL)`);
    const [during] = await server.run("SELECT current_setting('synchronous_commit') AS setting");
    await server.run("COMMIT");
    await server.run("SET synchronous_commit = on");
    expect([row!["before"], during!["setting"]]).toEqual(["on", "on"]);
    await store.close();
  });

  it("keeps few of the server's connections while its commits wait for a standby that is away", {
    timeout: 60_000,
  }, async () => {
    const url = await server.nextUrl();
    const store = await postgresStore(`${url}&connections=3`);
    const nodes = async () => {
      const [row] = await server.run(`SELECT count(*)::int AS count FROM pg_stat_activity
        WHERE application_name = 'redrive' AND query LIKE '%commit_batch%'`);
      return Number(row?.["count"]);
    };
    const before = await nodes();
    await server.run("ALTER SYSTEM SET synchronous_standby_names = 'away'");
    await server.run("SELECT pg_reload_conf()");
    const errors: string[] = [];
    let most = 0;
    const endMs = performance.now() + 8000;
    // Each with rows of its own, so that none waits for the locks of another.
    const run = async (nodeId: string) => {
      while (performance.now() < endMs) {
        const creates = [create({ destination: nodeId })];
        await store.commit(batch({ nodeId, creates })).catch((error) => errors.push(String(error)));
        most = Math.max(most, (await nodes()) - before);
      }
    };
    await Promise.all(["a", "b", "c"].map(run));
    await server.run("ALTER SYSTEM RESET synchronous_standby_names");
    await server.run("SELECT pg_reload_conf()");
    expect(most).toBeLessThanOrEqual(6);
    expect(errors.some((text) => text.includes("calls hang on the PostgreSQL server"))).toBe(true);
    await expect.poll(() => store.query.count(TENANT), { timeout: 20_000 }).not.toEqual({});
    await store.close();
  });

  it("ends a call that waits for a lock within the time of a call", async () => {
    const url = await server.nextUrl();
    const schema = new URL(url).searchParams.get("schema");
    const store = await postgresStore(url);
    await server.run("BEGIN");
    await server.run(`LOCK ${schema}.tasks, ${schema}.nodes`);
    const startedMs = performance.now();
    const calls = [
      store.commit(batch({ creates: [create()] })),
      store.renew(report("node-1")),
      store.query.list(TENANT, {}, { limit: 1 }),
      store.query.get(TENANT, "x"),
    ];
    const ends = await Promise.allSettled(calls);
    expect(performance.now() - startedMs).toBeLessThan(5500);
    await server.run("COMMIT");
    expect(ends.map(({ status }) => status)).toEqual(Array(4).fill("rejected"));
    expect(await store.query.count(TENANT)).toEqual({});
    await store.close();
  });

  it("stores 0 or 1 task for a key whose commit was cut, and the repetition finds it", async () => {
    const store = await server.nextStore();
    let unknown = 0;
    for (let round = 0; round < 40; round++) {
      const make = () => create({ idempotencyKey: `k${round}` }, { fingerprint: "f" });
      const [first, second] = [make(), make()];
      const cut = store.commit(batch({ creates: [first] })).catch(() => unknown++);
      await sleep(round % 5);
      await terminateAll();
      await cut;
      const { creates } = await eventually(() => store.commit(batch({ creates: [second] })));
      expect(["created", "replayed"]).toContain(creates[0]?.kind);
      const filter = { idempotencyKey: `k${round}` };
      const { tasks } = await eventually(() => store.query.list(TENANT, filter, { limit: 9 }));
      expect(tasks).toHaveLength(1);
    }
    expect(unknown).toBeGreaterThan(0);
    await store.close();
  });

  it("loses no acknowledged create in a crash of the server, and resumes", async () => {
    const store = await server.nextStore();
    const acknowledged: string[] = [];
    let failures = 0;
    let isDone = false;
    const write = async () => {
      while (!isDone) {
        const creates = Array.from({ length: 8 }, () => create());
        try {
          await store.commit(batch({ creates }));
          acknowledged.push(...creates.map(({ task }) => task.taskId));
        } catch {
          failures++;
          await sleep(20);
        }
      }
    };
    const writers = [write(), write(), write()];
    for (let crashes = 0; crashes < 2; crashes++) {
      const stored = acknowledged.length;
      await expect.poll(() => acknowledged.length, { timeout: 30_000 }).toBeGreaterThan(stored);
      const failed = failures;
      await eventually(() => server.crash());
      await expect.poll(() => failures, { timeout: 30_000 }).toBeGreaterThan(failed);
      const before = acknowledged.length;
      await expect.poll(() => acknowledged.length, { timeout: 30_000 }).toBeGreaterThan(before);
    }
    isDone = true;
    await Promise.all(writers);
    expect(failures).toBeGreaterThan(0);
    const stored = new Set<string>();
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const wanted = { limit: 250, ...(cursor && { cursor }) };
      const page = await eventually(() => store.query.list(TENANT, {}, wanted));
      for (const { taskId } of page.tasks) stored.add(taskId);
      cursor = page.cursor;
    }
    expect(acknowledged.filter((taskId) => !stored.has(taskId))).toEqual([]);
    const { PENDING } = await store.query.count(TENANT);
    expect(PENDING).toBe(stored.size);
    const row = { ...blankDestination(TENANT, DESTINATION), version: 1 };
    await store.commit(batch({ destinations: [{ row }] }));
    await store.close();
  });
});
