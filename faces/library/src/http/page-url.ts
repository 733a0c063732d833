/**
 * Page URL: resolves URLs as a browser page does, relative to the page's own location. Outside of
 * browsers there is no location, and URLs must be absolute.
 */

export function pageLocation(): { readonly href?: string; readonly origin?: string } | undefined {
  return (globalThis as { location?: { href?: string; origin?: string } }).location;
}

export function absoluteUrl(url: string): URL {
  return new URL(url, pageLocation()?.href);
}
