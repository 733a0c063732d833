/** Files: downloads text and images, and converts a chart on the page to a standalone SVG or PNG. */
import { systemClock } from "@redrive/core";

/** Some browsers fetch the content long after the click. */
const REVOKE_DELAY_MS = 60_000;

function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  systemClock.alarm(REVOKE_DELAY_MS, () => URL.revokeObjectURL(url));
}

export function downloadText(name: string, type: string, text: string): void {
  download(name, new Blob([text], { type: `${type};charset=utf-8` }));
}

/** `caption`: what the chart shows, for example the strategy and the seed. */
export async function downloadPng(
  name: string,
  drawing: SVGSVGElement | null,
  caption = "",
): Promise<void> {
  download(`${name}.png`, await pngOf(assertOnPage(drawing), caption));
}

export function downloadSvg(name: string, drawing: SVGSVGElement | null, caption = ""): void {
  downloadText(`${name}.svg`, "image/svg+xml", svgText(assertOnPage(drawing), caption));
}

/** The chart is gone if the reader has left the view in the meantime. */
function assertOnPage(drawing: SVGSVGElement | null): SVGSVGElement {
  if (drawing === null) throw new Error("the chart is not on the page");
  return drawing;
}

/** Style properties that are copied into attributes, because a file has no style sheet. */
const STYLE_PROPERTIES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "stroke-linecap",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
  "visibility",
  "paint-order",
  "stroke-linejoin",
] as const;

/** The chart as it looks now: its styles as attributes, the page's background, its title and legend. */
function svgText(drawing: SVGSVGElement, caption: string): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  for (const [index, element] of [copy, ...copy.querySelectorAll("*")].entries()) {
    const style = getComputedStyle(originals[index] as Element);
    for (const name of STYLE_PROPERTIES) element.setAttribute(name, style.getPropertyValue(name));
    element.removeAttribute("class");
    element.removeAttribute("style");
  }
  for (const hidden of copy.querySelectorAll("[data-export=no]")) hidden.remove();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  frame(copy, drawing, caption);
  return `${new XMLSerializer().serializeToString(copy)}\n`;
}

/** Space above the chart for its title and caption, below it for its legend, and at the sides. */
const HEAD = 52;
const FOOT = 30;
const SIDE = 12;

interface Size {
  readonly width: number;
  readonly height: number;
}

function sizeOf(drawing: SVGSVGElement): Size {
  const { width, height } = drawing.getBoundingClientRect();
  return { width: width + 2 * SIDE, height: HEAD + height + FOOT };
}

/** Adds the background, title, caption and legend around the chart. */
function frame(copy: SVGSVGElement, drawing: SVGSVGElement, caption: string): void {
  const { width, height } = sizeOf(drawing);
  const card = drawing.closest(".card") ?? document.body;
  const { backgroundColor, color } = getComputedStyle(card);
  const box = { x: -SIDE, y: -HEAD, width, height, fill: backgroundColor };
  const title = drawing.querySelector("title")?.textContent ?? "";
  const text = { x: 0, fill: color, "font-family": getComputedStyle(card).fontFamily };
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  copy.setAttribute("viewBox", `${-SIDE} ${-HEAD} ${width} ${height}`);
  copy.prepend(
    element("rect", box),
    element("text", { ...text, y: 20 - HEAD, "font-size": 15, "font-weight": 600 }, title),
    element("text", { ...text, y: 39 - HEAD, "font-size": 12 }, caption),
  );
  const y = height - HEAD - FOOT + 18;
  copy.append(...legendOf(card, { ...text, y, "font-size": 12 }));
}

/** The width of a character, about: the file has no layout. */
const CHARACTER_PX = 6.5;

function legendOf(card: Element, text: Attributes): readonly SVGElement[] {
  let x = 0;
  return [...card.querySelectorAll(".legend li, .readout dt")].flatMap((item) => {
    const key = item.querySelector("rect, i");
    if (key === null) return [];
    const { fill: own, stroke, borderTopColor } = getComputedStyle(key);
    const fill = key instanceof SVGElement ? own : borderTopColor;
    const label = item.textContent ?? "";
    const [markX, labelX] = [x, x + 20];
    x = labelX + CHARACTER_PX * label.length + 20;
    const mark = { x: markX, y: Number(text["y"]) - 8, width: 14, height: 8, rx: 2, fill, stroke };
    return [element("rect", mark), element("text", { ...text, x: labelX }, label)];
  });
}

type Attributes = Readonly<Record<string, string | number>>;

function element(name: string, attributes: Attributes, text = ""): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text !== "") made.textContent = text;
  return made;
}

/** Pixels per page pixel, for high-density screens and slides. */
const PNG_SCALE = 2;

async function pngOf(drawing: SVGSVGElement, caption: string): Promise<Blob> {
  const { width, height } = sizeOf(drawing);
  const url = URL.createObjectURL(new Blob([svgText(drawing, caption)], { type: "image/svg+xml" }));
  try {
    const image = new Image(width, height);
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * PNG_SCALE);
    canvas.height = Math.round(height * PNG_SCALE);
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await blobOf(canvas);
  } finally {
    URL.revokeObjectURL(url);
  }
}

function blobOf(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => {
      if (blob === null) reject(new Error("the browser could not create the image"));
      else resolve(blob);
    }, "image/png");
  });
}
