/** Chart: an SVG that takes the width it is given, with a name and a text for who cannot see it. */
import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren, Ref } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface ChartProps {
  /** What it is: "Waits of 8 attempts". */
  readonly title: string;
  /** What it shows, in words: the same figures that the marks have. */
  readonly description: string;
  /** In pixels; or of the width, where the text needs more room on narrow pages. */
  readonly height: number | ((width: number) => number);
  /** For exports: the drawing itself. */
  readonly svgRef?: Ref<SVGSVGElement>;
  /** A chart with parts that can be moved is a group; others are pictures. */
  readonly isInteractive?: boolean;
  readonly children: (width: number) => ComponentChildren;
}

export function Chart(props: ChartProps) {
  const { title, description, svgRef, isInteractive = false, children } = props;
  const box = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  const height =
    typeof props.height === "number" ? props.height : props.height(Math.max(1, width.value));
  useLayoutEffect(() => watchWidth(box.current, width), [width]);
  return (
    <div ref={box} class="chart" style={{ minHeight: `${height}px` }}>
      {width.value > 0 && (
        <svg
          ref={svgRef ?? null}
          width={width.value}
          height={height}
          viewBox={`0 0 ${width.value} ${height}`}
          role={isInteractive ? "group" : "img"}
          aria-label={`${title}. ${description}`}
        >
          <title>{title}</title>
          {children(width.value)}
        </svg>
      )}
    </div>
  );
}

function watchWidth(element: HTMLElement | null, width: Signal<number>): (() => void) | undefined {
  if (element === null) return undefined;
  const measure = () => {
    width.value = Math.floor(element.clientWidth);
  };
  measure();
  const observer = new ResizeObserver(measure);
  observer.observe(element);
  return () => observer.disconnect();
}
