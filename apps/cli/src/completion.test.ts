/** Completion offers the right candidates, and a real shell accepts the script. */
import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { candidates } from "./completion.ts";
import { redrive } from "./program.testing.ts";
import { program } from "./program.ts";

describe("candidates", () => {
  test("after nothing: every command", async () => {
    const found = await candidates(program(), []);
    expect(found).toEqual(expect.arrayContaining(["dev", "serve", "tasks", "sim", "--version"]));
  });

  test("after a group: its commands; after a command: its flags, also after other flags", async () => {
    expect(await candidates(program(), ["tasks"])).toEqual(
      expect.arrayContaining(["ls", "get", "retry", "cancel", "tail"]),
    );
    expect(await candidates(program(), ["schedule", "--full"])).toEqual(
      expect.arrayContaining(["--seed", "--json", "--help"]),
    );
  });

  test("after an unknown word: the same as without it", async () => {
    expect(await candidates(program(), ["nonsense"])).toEqual(await candidates(program(), []));
  });

  test("after a flag: its values only", async () => {
    expect(await candidates(program(), ["tasks", "ls", "--status"])).toEqual(
      expect.arrayContaining(["PENDING", "EXHAUSTED"]),
    );
    const presets = await candidates(program(), ["schedule", "--preset"]);
    expect(presets).toEqual(expect.arrayContaining(["payment", "aws-standard"]));
    expect(presets).not.toContain("--seed");
  });

  test("without a service there are no names, and no error", async () => {
    const words = ["destinations", "pause", "--url", "http://127.0.0.1:1", "--destination"];
    expect(await candidates(program(), words)).toContain("--json");
    expect(
      await candidates(program(), ["tasks", "ls", "--url", "127.0.0.1:1", "--policy"]),
    ).toEqual([]);
  });
});

test("the candidates are printed one per line, with exit code 0", async () => {
  const { out, code } = await redrive("completion words dlq");
  expect(out.trim().split("\n")).toEqual(expect.arrayContaining(["ls", "redrive", "purge"]));
  expect(code).toBe(0);
});

test("bash accepts the script and completes from the output of redrive", async () => {
  const { out: script } = await redrive("completion bash");
  const answer = 'redrive() { [ "$*" = "completion words tasks" ] && echo "ls get tail"; }';
  const typed = 'COMP_WORDS=(redrive tasks t); COMP_CWORD=2; _redrive; echo "${COMPREPLY[*]}"';
  const completed = execFileSync("bash", ["-c", `${answer}\n${script}\n${typed}`]);
  expect(completed.toString().trim()).toBe("tail");
});

test.each(["zsh", "fish"])("%s has its own script", async (shell) => {
  expect((await redrive(`completion ${shell}`)).out).toContain("redrive completion words");
});
