/** Page frame: the title of a page, its actions, its error, and its content. */
import type { ComponentChildren } from "preact";
import { Notice } from "../../components/notice.tsx";

interface PageFrameProps {
  readonly title: string;
  /** A link to the list that the page belongs to. */
  readonly parent?: ComponentChildren;
  readonly problem?: string;
  /** False until the first response. */
  readonly isLoaded?: boolean;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function PageFrame(props: PageFrameProps) {
  const { title, parent, problem = "", isLoaded = true, actions, children } = props;
  return (
    <div class="page stage">
      <div class="page-head">
        <div class="page-title">
          {parent !== undefined && <p class="page-parent">{parent}</p>}
          <h1>
            <bdi>{title}</bdi>
          </h1>
        </div>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </div>
      {problem !== "" && <Notice tone="bad">{problem}</Notice>}
      {!isLoaded && problem === "" && <p class="loading">Loading…</p>}
      {isLoaded && children}
    </div>
  );
}
