/** Link: a link to a page of the dashboard that opens in place. */
import type { ComponentChildren } from "preact";
import type { DashboardPage } from "../../app/pages.ts";
import { addressOf, goTo, type Query } from "./route.ts";

interface LinkProps {
  readonly page: DashboardPage;
  readonly query?: Query;
  readonly class?: string;
  readonly title?: string;
  /** Marks the link of the shown page. */
  readonly isCurrent?: boolean;
  readonly children: ComponentChildren;
}

export function Link(props: LinkProps) {
  const { page, query = {}, class: name, title, isCurrent = false, children } = props;
  return (
    <a
      href={addressOf(page, query)}
      class={name}
      title={title}
      aria-current={isCurrent ? "page" : undefined}
      onClick={(event) => {
        if (!isPlainClick(event)) return;
        event.preventDefault();
        goTo(page, query);
      }}
    >
      {children}
    </a>
  );
}

/** Other clicks open a new tab or window. */
export function isPlainClick(event: MouseEvent): boolean {
  const { button, ctrlKey, metaKey, shiftKey, altKey } = event;
  return button === 0 && !ctrlKey && !metaKey && !shiftKey && !altKey;
}
