/** Header: the name of the product, the menu of pages, and what the open page adds. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { isServed, menuPageOf, menuPages, type PageName } from "./pages.ts";

interface HeaderProps {
  readonly page: PageName;
  /** Called for a plain click on the link of a page. Prevent the default to open it in place. */
  readonly onOpen?: (page: PageName, event: MouseEvent) => void;
  readonly children?: ComponentChildren;
}

export function Header({ page, onOpen, children }: HeaderProps) {
  const served = isServed();
  const current = menuPageOf(page);
  const menu = useRef<HTMLElement>(null);
  // On a phone, the menu is wider than the screen.
  useEffect(() => {
    const link = menu.current?.querySelector("[aria-current]");
    link?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [current]);
  return (
    <header class="header">
      <span class="brand">
        <img src="./icon.svg" alt="" width="20" height="20" />
        Redrive
      </span>
      <nav ref={menu} aria-label="Pages" class="pages">
        {menuPages
          .filter(({ name }) => served || name === "simulator")
          .map(({ name, label }) => (
            <a
              key={name}
              href={served ? `./${name}` : "./"}
              aria-current={name === current ? "page" : undefined}
              onClick={(event) => onOpen?.(name, event)}
            >
              {label}
            </a>
          ))}
      </nav>
      {children}
    </header>
  );
}
