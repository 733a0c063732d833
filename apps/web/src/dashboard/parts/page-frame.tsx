/** Page frame: the title of a page, its actions, its error, and its content. */
import type { ComponentChildren } from "preact";
import { Notice } from "../../components/notice.tsx";

interface PageFrameProps {
  readonly title: string;
  readonly problem?: string;
  /** False until the first response. */
  readonly isLoaded?: boolean;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function PageFrame(props: PageFrameProps) {
  const { title, problem = "", isLoaded = true, actions, children } = props;
  return (
    <div class="page stage">
      <div class="page-head">
        <h1>{title}</h1>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </div>
      {problem !== "" && <Notice tone="bad">{problem}</Notice>}
      {!isLoaded && problem === "" && <p class="loading">Loading…</p>}
      {isLoaded && children}
    </div>
  );
}
