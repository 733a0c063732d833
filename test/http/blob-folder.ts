/** Blob folder: a temporary directory of blobs, and what tests look at in it. */
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class BlobFolder {
  readonly parent: string = mkdtempSync(join(tmpdir(), "redrive-bodies-"));
  readonly path: string = join(this.parent, "blobs");

  get text(): string {
    return `file:${this.path}`;
  }

  /** The paths of all blobs. */
  blobs(): readonly string[] {
    return this.files().filter((path) => /\.[\da-f]{64}$/.test(path));
  }

  /** The paths of all files, also temporary ones. */
  files(): readonly string[] {
    const entries = readdirSync(this.path, { recursive: true, encoding: "utf8" });
    return entries.map((name) => join(this.path, name)).filter((path) => statSync(path).isFile());
  }

  /** The path of the blob with this ref. */
  pathOf(bodyRef: string): string {
    const found = this.blobs().find((path) => path.endsWith(bodyRef));
    if (found === undefined) throw new Error(`there is no blob ${bodyRef}`);
    return found;
  }

  remove(): void {
    rmSync(this.parent, { recursive: true, force: true });
  }
}
