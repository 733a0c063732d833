/**
 * Places: numbers the destinations of the new tasks of a batch, so that the server looks up each one
 * once.
 */
export class Places {
  /** Tenant and name, by place. */
  readonly names: (readonly [string, string])[] = [];
  readonly #places = new Map<string, number>();

  /** From 1, as in an array of the server. */
  of(tenantId: string, destination: string): number {
    const key = `${tenantId}\n${destination}`;
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    const place = this.names.push([tenantId, destination]);
    this.#places.set(key, place);
    return place;
  }
}
