/** Fake time: finds the library of the package `faketime`, which shifts the wall clock of a process. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { programFor } from "../../tools/needs.mjs";

const LIBRARY = "faketime/libfaketimeMT.so.1";

/** The path of the library for programs with several threads. */
export function fakeTimeLibrary(): string {
  programFor("faketime");
  const folders = ["/usr/lib", ...readdirSync("/usr/lib").map((name) => join("/usr/lib", name))];
  const found = folders.map((folder) => join(folder, LIBRARY)).find((path) => existsSync(path));
  if (found === undefined) throw new Error(`${LIBRARY} is not below /usr/lib`);
  return found;
}
