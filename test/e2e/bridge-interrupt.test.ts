/** The built `redrive bridge` ends on Ctrl-C while it still waits for its broker. */
// needs: build
import { spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));

test.each(["redis", "amqp"])(
  "a %s broker that never answers does not hold Ctrl-C",
  async (scheme) => {
    const silent = createServer().listen(0, "127.0.0.1");
    await once(silent, "listening");
    const from = `${scheme}://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const args = ["bridge", "http://127.0.0.1:1/", "--from", from, "--queue", "orders"];
    const child = spawn(process.execPath, [MAIN, ...args], { stdio: "ignore" });
    const ended = once(child, "exit");
    const [socket] = (await once(silent, "connection")) as [Socket];
    onTestFinished(() => {
      child.kill("SIGKILL");
      socket.destroy();
      silent.close();
    });
    child.kill("SIGINT");
    expect(await ended).toEqual([null, "SIGINT"]);
  },
);
