/** Lazy part: loads and shows a component when it scrolls into view. */
import { useSignal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface LazyPartProps<Props> {
  /** The CSS height of the placeholder, so that the content below does not jump. */
  readonly height: string;
  /** Passed on to the component. Default: none. */
  readonly props?: Props;
  load(): Promise<FunctionComponent<Props>>;
}

export function LazyPart<Props extends object>({ height, load, props }: LazyPartProps<Props>) {
  const placeholder = useRef<HTMLDivElement>(null);
  const loaded = useSignal<{ readonly Part: FunctionComponent<Props> } | undefined>(undefined);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      void load().then((Part) => {
        loaded.value = { Part };
      });
    });
    if (placeholder.current !== null) observer.observe(placeholder.current);
    return () => observer.disconnect();
  }, [load, loaded]);
  if (loaded.value === undefined) {
    return <div ref={placeholder} style={{ minHeight: height }} />;
  }
  const { Part } = loaded.value;
  return <Part {...(props as Props)} />;
}

/** The height of the lint panel on a phone, as in `lint-panel.css`, reserved before the panel loads. */
export const LINT_PANEL_HEIGHT = "11rem";
