/** Tests of completion: what follows what, and that a real shell takes the script. */
import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { candidates } from "./completion.ts";
import { redrive } from "./program.testing.ts";
import { program } from "./program.ts";

describe("what may follow", () => {
  test("nothing: every command", () => {
    const found = candidates(program(), []);
    expect(found).toEqual(expect.arrayContaining(["dev", "serve", "tasks", "sim", "--version"]));
  });

  test("a group: its commands; a command: its flags, whatever was typed between", () => {
    expect(candidates(program(), ["tasks"])).toEqual(
      expect.arrayContaining(["ls", "get", "retry", "cancel", "tail"]),
    );
    expect(candidates(program(), ["schedule", "--full"])).toEqual(
      expect.arrayContaining(["--seed", "--json", "--help"]),
    );
  });

  test("what nobody knows: what was there before", () => {
    expect(candidates(program(), ["nonsense"])).toEqual(candidates(program(), []));
  });
});

test("the shell's question is answered a word a line, with exit code 0", async () => {
  const { out, code } = await redrive("completion words dlq");
  expect(out.trim().split("\n")).toEqual(expect.arrayContaining(["ls", "redrive", "purge"]));
  expect(code).toBe(0);
});

test("bash takes the script and completes from what redrive answers", async () => {
  const { out: script } = await redrive("completion bash");
  const answer = 'redrive() { [ "$*" = "completion words tasks" ] && echo "ls get tail"; }';
  const typed = 'COMP_WORDS=(redrive tasks t); COMP_CWORD=2; _redrive; echo "${COMPREPLY[*]}"';
  const completed = execFileSync("bash", ["-c", `${answer}\n${script}\n${typed}`]);
  expect(completed.toString().trim()).toBe("tail");
});

test.each(["zsh", "fish"])("%s has a script of its own", async (shell) => {
  expect((await redrive(`completion ${shell}`)).out).toContain("redrive completion words");
});
