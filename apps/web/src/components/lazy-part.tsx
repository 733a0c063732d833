/** Lazy part: loads and shows a component when it scrolls into view. */
import { useSignal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface LazyPartProps {
  /** The CSS height of the placeholder, so that the content below does not jump. */
  readonly height: string;
  load(): Promise<FunctionComponent>;
}

export function LazyPart({ height, load }: LazyPartProps) {
  const placeholder = useRef<HTMLDivElement>(null);
  const loaded = useSignal<{ readonly Part: FunctionComponent } | undefined>(undefined);
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
  return <Part />;
}
