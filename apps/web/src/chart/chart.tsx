/** Chart: an SVG that fills the available width, with a title and a description for screen readers. */
import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren, Ref } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface ChartProps {
  /** For example "Waits of 8 attempts". */
  readonly title: string;
  /** The figures that the chart shows, as text. */
  readonly description: string;
  /** In pixels, or as a function of the width, if narrow pages need more height. */
  readonly height: number | ((width: number) => number);
  /** The SVG element, for exports. */
  readonly svgRef?: Ref<SVGSVGElement>;
  /** True if parts of the chart can be moved. Its role is then "group" instead of "img". */
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
