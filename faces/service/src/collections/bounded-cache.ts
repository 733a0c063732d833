/**
 * Remembered: a pure function of one text that keeps its latest answers. Tasks go to a few targets
 * again and again; judging a URL costs more than anything else in taking a task in.
 */

/** Longer texts are not kept, so that nobody can fill the memory with them. */
const LONGEST = 2048;

/** Forgets everything once it knows `most` answers: simple, and as good where texts repeat. */
export function remembered<Answer>(
  most: number,
  answer: (text: string) => Answer,
): (text: string) => Answer {
  const known = new Map<string, Answer>();
  return (text) => {
    const found = known.get(text);
    if (found !== undefined) return found;
    const fresh = answer(text);
    if (typeof text !== "string" || text.length > LONGEST) return fresh;
    if (known.size >= most) known.clear();
    known.set(text, fresh);
    return fresh;
  };
}
