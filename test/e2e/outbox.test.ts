/** Tests that a task in a transaction of the caller exists, and is sent, if and only if it commits. */
// needs: postgres
import { createRedrive, postgresStore } from "@redrive/service";
import { describe, expect, it } from "vitest";
import { codeOf, outboxPlace, PROMPT_MS, type Work } from "./outbox-place.ts";

const place = outboxPlace();
const { arrived, inTransaction, taskOf, order, delivered } = place;
const open = (schema = place.nextSchema()) => place.open(schema);

/** Resolves once a transaction waits for another one. */
async function waitsForLock(): Promise<void> {
  const waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
  await expect.poll(async () => (await place.pool().query(waiting)).rowCount).toBeGreaterThan(0);
}

describe("a task in a transaction of the caller", () => {
  it("is sent after the commit, and not before", async () => {
    const redrive = await open();
    const { taskId, replayed } = await inTransaction(async (client) => {
      const accepted = await order(client, redrive, "committed", "committed");
      expect(await redrive.get(accepted.taskId)).toBeNull();
      // The service sends another task meanwhile, so it had the time to send this one.
      await redrive.enqueue(taskOf("meanwhile"));
      await delivered(["meanwhile"]);
      expect(arrived).not.toContain("committed");
      return accepted;
    });
    expect(replayed).toBe(false);
    await delivered(["committed"]);
    await expect.poll(async () => (await redrive.get(taskId))?.status).toBe("SUCCEEDED");
    await expect.poll(() => redrive.count()).toEqual({ SUCCEEDED: 2 });
  });

  it("leaves nothing after a rollback", async () => {
    const redrive = await open();
    const write: Work<string> = async (client) =>
      (await order(client, redrive, "undone", "undone")).taskId;
    const taskId = await inTransaction(write, "BEGIN", "ROLLBACK");
    expect(await redrive.get(taskId)).toBeNull();
    expect(await redrive.count()).toEqual({});
    expect((await redrive.list()).tasks).toEqual([]);
    expect((await redrive.health()).destinations).toEqual([]);
    const again = await redrive.enqueue(taskOf("undone again", "undone"));
    expect(again.replayed).toBe(false);
    await delivered(["undone again"]);
    expect(arrived).not.toContain("undone");
  });

  it("is sent by whichever of two nodes leases its partition", async () => {
    const schema = place.nextSchema();
    const services = [await open(schema), await open(schema)] as const;
    const names = Array.from({ length: 40 }, (_, n) => `fleet-${n}`);
    for (const [n, name] of names.entries()) {
      await inTransaction((client) => order(client, services[n % 2]!, name, name));
    }
    await delivered(names);
    expect(arrived.filter((name) => name.startsWith("fleet-"))).toHaveLength(names.length);
  });

  it("is found within seconds if no node hears the NOTIFY", async () => {
    const schema = place.nextSchema();
    const store = await postgresStore(`${place.url()}?schema=${schema}`, { listen: false });
    const redrive = place.stopLater(await createRedrive({ store }));
    await inTransaction((client) => order(client, redrive, "unheard"));
    await delivered(["unheard"]);
  });

  it("is stored with others of one transaction, side by side with other statements", async () => {
    const redrive = await open();
    const names = ["side-1", "side-2", "side-3"];
    await inTransaction(async (client) => {
      for (const name of names) await order(client, redrive, name);
    });
    await delivered(names);
  });

  it.each(["REPEATABLE READ", "SERIALIZABLE"])("works in the isolation level %s", async (level) => {
    const redrive = await open();
    const begin = `BEGIN ISOLATION LEVEL ${level}`;
    const name = `level-${level.replace(" ", "-")}`;
    await inTransaction(async (client) => {
      // The snapshot is older than the rows of the policy and the destination.
      await client.query("SELECT count(*) FROM orders");
      await order(client, redrive, name, name);
    }, begin);
    await delivered([name]);
  });

  it("needs only the right to one function", async () => {
    const schema = place.nextSchema();
    const redrive = await open(schema);
    await place.pool().query("CREATE ROLE app");
    const begin = "BEGIN; SET LOCAL ROLE app";
    const write: Work<unknown> = (client) => redrive.enqueue(taskOf("role"), { tx: client });
    expect(await codeOf(inTransaction(write, begin))).toMatch(/^INVALID_ARGUMENT: .*USAGE/u);
    await place.pool().query(`GRANT USAGE ON SCHEMA ${schema} TO app`);
    expect(await codeOf(inTransaction(write, begin))).toMatch(/^INVALID_ARGUMENT: .*EXECUTE/u);
    await place.pool().query(`GRANT EXECUTE ON FUNCTION ${schema}.enqueue_task TO app`);
    await inTransaction(write, begin);
    await delivered(["role"]);
  });
});

describe("an idempotency key in transactions", () => {
  it("makes the second transaction wait for the first, and replays its task", async () => {
    const redrive = await open();
    let second: Promise<{ taskId: string; replayed: boolean }> | undefined;
    let isOver = false;
    const first = await inTransaction(async (client) => {
      const accepted = await redrive.enqueue(taskOf("same", "same"), { tx: client });
      second = inTransaction((other) => redrive.enqueue(taskOf("same", "same"), { tx: other }));
      void second.finally(() => {
        isOver = true;
      });
      await waitsForLock();
      expect(isOver).toBe(false);
      return accepted;
    });
    expect(await second).toEqual({ taskId: first.taskId, replayed: true });
    await delivered(["same"]);
    await expect.poll(() => redrive.count()).toEqual({ SUCCEEDED: 1 });
  });

  it("is free for the second transaction if the first rolls back", async () => {
    const redrive = await open();
    let second: Promise<{ replayed: boolean }> | undefined;
    const first: Work<void> = async (client) => {
      await redrive.enqueue(taskOf("freed", "freed"), { tx: client });
      second = inTransaction((other) => redrive.enqueue(taskOf("freed", "freed"), { tx: other }));
      await waitsForLock();
    };
    await inTransaction(first, "BEGIN", "ROLLBACK");
    expect((await second)?.replayed).toBe(false);
    await delivered(["freed"]);
  });

  it("is a conflict with another payload, and the transaction stays usable", async () => {
    const redrive = await open();
    await redrive.enqueue(taskOf("one payload", "key"));
    await inTransaction(async (client) => {
      const refused = redrive.enqueue(taskOf("other payload", "key"), { tx: client });
      expect(await codeOf(refused)).toMatch(/^IDEMPOTENCY_CONFLICT: .*"key"/u);
      await order(client, redrive, "after a conflict");
    });
    await delivered(["one payload", "after a conflict"]);
    expect(arrived).not.toContain("other payload");
  });
});

describe("an open transaction", () => {
  it("blocks no other task of its destination, no removal and no count", async () => {
    const redrive = await open();
    await redrive.policies.register({ policyId: "kept", maxAttempts: 2 });
    await inTransaction(async (client) => {
      const task = { ...taskOf("open"), policyId: "kept" };
      await redrive.enqueue(task, { tx: client });
      const startedMs = performance.now();
      await redrive.enqueue(taskOf("meanwhile"));
      await inTransaction((other) => redrive.enqueue(taskOf("beside"), { tx: other }));
      await delivered(["meanwhile", "beside"]);
      expect(await redrive.policies.remove("kept")).toBe(false);
      expect(performance.now() - startedMs).toBeLessThan(PROMPT_MS);
    });
    await delivered(["open"]);
    await expect.poll(() => redrive.count()).toEqual({ SUCCEEDED: 3 });
    expect(await redrive.policies.remove("kept")).toBe(true);
  });
});
