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

export async function downloadPng(name: string, drawing: SVGSVGElement | null): Promise<void> {
  download(`${name}.png`, await pngOf(assertOnPage(drawing)));
}

export function downloadSvg(name: string, drawing: SVGSVGElement | null): void {
  downloadText(`${name}.svg`, "image/svg+xml", svgText(assertOnPage(drawing)));
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

/** The chart as it looks now: with its styles as attributes and the page's background. */
function svgText(drawing: SVGSVGElement): string {
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
  copy.prepend(background(drawing));
  return `${new XMLSerializer().serializeToString(copy)}\n`;
}

function background(drawing: SVGSVGElement): SVGRectElement {
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const color = getComputedStyle(drawing.closest(".card") ?? document.body).backgroundColor;
  for (const [name, value] of [
    ["width", "100%"],
    ["height", "100%"],
    ["fill", color],
  ] as const) {
    rect.setAttribute(name, value);
  }
  return rect;
}

/** Pixels per page pixel, for high-density screens and slides. */
const PNG_SCALE = 2;

async function pngOf(drawing: SVGSVGElement): Promise<Blob> {
  const { width, height } = drawing.getBoundingClientRect();
  const url = URL.createObjectURL(new Blob([svgText(drawing)], { type: "image/svg+xml" }));
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
