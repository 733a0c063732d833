/** Export menu: builds the usual items of an Export menu. The code of an item loads when it is chosen. */
import { type ReadonlySignal, signal } from "@preact/signals";
import type { PolicyDocument } from "@redrive/core";
import type { CsvRow } from "@redrive/simulator/export";

/** An item of the Export menu. */
export interface ExportItem {
  /** For example "PNG" or "CSV". */
  readonly label: string;
  /** Describes the file in a few words. */
  readonly hint: string;
  /** Rejects with a message if there is nothing to export. */
  run(): Promise<void>;
}

type MaybePromise<T> = T | Promise<T>;

/** What a view can export. Sources that need the worker wait for the current result or reject. */
export interface ExportSources {
  /** The file name without extension, for example `redrive-curve`. */
  readonly name: string;
  /** The chart on the page. */
  readonly drawing?: () => MaybePromise<SVGSVGElement | null>;
  /** What the chart shows, for its image: for example the strategy and the seed. */
  readonly caption?: () => string;
  /** The first row holds the column names. */
  readonly rows?: () => MaybePromise<readonly CsvRow[]>;
  /** The JSON that the command line prints with `--json`. */
  readonly json?: () => MaybePromise<object>;
  readonly policy?: () => MaybePromise<PolicyDocument>;
  /** Names the policy, if a view has several. */
  readonly policyTitle?: () => string;
}

export function exportMenu({
  name,
  drawing,
  caption,
  rows,
  json,
  policy,
  policyTitle,
}: ExportSources): readonly ExportItem[] {
  return [
    ...(drawing === undefined ? [] : pictures(name, drawing, caption ?? (() => ""))),
    ...(rows === undefined ? [] : [csvFile(name, rows)]),
    ...(json === undefined ? [] : [jsonFile(name, json)]),
    ...(policy === undefined ? [] : [code(policy, policyTitle)]),
  ];
}

function pictures(
  name: string,
  drawing: NonNullable<ExportSources["drawing"]>,
  caption: NonNullable<ExportSources["caption"]>,
): readonly ExportItem[] {
  return [
    {
      label: "PNG",
      hint: "image at double size",
      async run() {
        const files = await import("./export-files.ts");
        await files.downloadPng(name, await drawing(), caption());
      },
    },
    {
      label: "SVG",
      hint: "vector image",
      async run() {
        const files = await import("./export-files.ts");
        files.downloadSvg(name, await drawing(), caption());
      },
    },
  ];
}

function csvFile(name: string, rows: NonNullable<ExportSources["rows"]>): ExportItem {
  return {
    label: "CSV",
    hint: "for spreadsheets",
    async run() {
      const [files, { csv }] = await Promise.all([
        import("./export-files.ts"),
        import("@redrive/simulator/export"),
      ]);
      files.downloadText(`${name}.csv`, "text/csv", csv(await rows()));
    },
  };
}

function jsonFile(name: string, json: NonNullable<ExportSources["json"]>): ExportItem {
  return {
    label: "JSON",
    hint: "as redrive --json prints it",
    async run() {
      const files = await import("./export-files.ts");
      const text = JSON.stringify(await json(), (_, value) => toPlain(value), 2);
      files.downloadText(`${name}.json`, "application/json", `${text}\n`);
    },
  };
}

/** Converts typed arrays to plain arrays. */
function toPlain(value: unknown): unknown {
  return ArrayBuffer.isView(value) ? Array.from(value as unknown as ArrayLike<number>) : value;
}

function code(
  policy: NonNullable<ExportSources["policy"]>,
  title: ExportSources["policyTitle"],
): ExportItem {
  return {
    label: "Code",
    hint: "Redrive, other libraries and languages",
    run: async () => showCode(await policy(), title?.()),
  };
}

export interface ShownCode {
  readonly policy: PolicyDocument;
  /** Names the policy, if a view has several. */
  readonly title: string;
}

const shown = signal<ShownCode | undefined>(undefined);

export const shownCode: ReadonlySignal<ShownCode | undefined> = shown;

/** The policy that the code dialog shows, if it is open. */
function showCode(policy: PolicyDocument, title = "This policy"): void {
  shown.value = { policy, title };
}

export function hideCode(): void {
  shown.value = undefined;
}
