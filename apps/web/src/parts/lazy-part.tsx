/** When seen: loads and shows a part of the page once its place comes near the window. */
import { useSignal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface WhenSeenProps {
  /** Of the empty place, as CSS writes it, so that what is below does not jump. */
  readonly height: string;
  load(): Promise<FunctionComponent>;
}

export function LazyPart({ height, load }: WhenSeenProps) {
  const place = useRef<HTMLDivElement>(null);
  const loaded = useSignal<{ readonly Part: FunctionComponent } | undefined>(undefined);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      void load().then((Part) => {
        loaded.value = { Part };
      });
    });
    if (place.current !== null) observer.observe(place.current);
    return () => observer.disconnect();
  }, [load, loaded]);
  if (loaded.value === undefined) {
    return <div ref={place} style={{ minHeight: height }} />;
  }
  const { Part } = loaded.value;
  return <Part />;
}
